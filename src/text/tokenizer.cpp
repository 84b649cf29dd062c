#include "text/tokenizer.h"

#include <utility>

#include "base/file.h"
#include "text/tokenizer_parts.h"

namespace ida::text {

std::optional<std::int32_t> TokenizerParts::id_of(std::string_view token) const {
  const std::int32_t added_id = added.id_of(token);
  const std::int32_t id = added_id != kNoToken ? added_id : model.vocabulary().id_of(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<std::string> TokenizerParts::token_of(std::int64_t id) const {
  if (id < 0 || id >= vocab_size) return std::nullopt;
  if (const AddedToken* token = added.find(static_cast<std::int32_t>(id))) return token->content;
  if (model.vocabulary().has(id)) return model.vocabulary().token_of(id);
  return std::nullopt;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 4);
  if (add_special) ids = parts_->around.before;
  parts_->added.split_raw(text, [&](std::string_view stretch, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
    } else {
      encode_stretch(stretch, stretch.data() == text.data(), ids);
    }
  });
  if (add_special) ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
  return ids;
}

void Tokenizer::encode_stretch(std::string_view text, bool at_text_start, std::vector<std::int32_t>& ids) const {
  if (parts_->normalizer.empty()) return encode_normalized(text, at_text_start, ids);
  encode_normalized(parts_->normalizer.apply(text), at_text_start, ids);
}

void Tokenizer::encode_normalized(std::string_view text, bool at_text_start, std::vector<std::int32_t>& ids) const {
  const auto encode_word = [&](std::string_view word) { parts_->model.encode_word(word, ids); };
  parts_->added.split_normalized(text, [&](std::string_view stretch, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
    } else {
      parts_->pre_tokenizer.split({stretch, at_text_start && stretch.data() == text.data()}, encode_word);
    }
  });
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const TokenizerParts& parts = *parts_;
  const bool direct = parts.decoder.is_byte_level() && parts.model.options().byte_level;
  std::string text;
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const AddedToken* added = parts.added.find(id);
    if (added != nullptr && added->special && skip_special) continue;
    if (added == nullptr && !parts.model.vocabulary().has(id)) continue;
    if (direct) {
      text += added != nullptr ? added->content : parts.model.bytes_of(id);
    } else {
      tokens.push_back(added != nullptr ? added->content : parts.model.vocabulary().token_of(id));
    }
  }
  return direct ? text : parts.decoder.decode(std::move(tokens));
}

std::int64_t Tokenizer::vocab_size() const { return parts_->vocab_size; }
std::optional<std::int32_t> Tokenizer::bos_id() const { return parts_->bos; }
std::optional<std::int32_t> Tokenizer::eos_id() const { return parts_->eos; }
std::optional<std::int32_t> Tokenizer::pad_id() const { return parts_->pad; }

bool Tokenizer::adds_bos() const {
  const std::vector<std::int32_t>& before = parts_->around.before;
  return parts_->bos && !before.empty() && before.front() == *parts_->bos;
}

bool Tokenizer::adds_eos() const {
  const std::vector<std::int32_t>& after = parts_->around.after;
  return parts_->eos && !after.empty() && after.back() == *parts_->eos;
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const { return parts_->id_of(token); }
std::optional<std::string> Tokenizer::token_of(std::int64_t id) const { return parts_->token_of(id); }

bool Tokenizer::is_special(std::int64_t id) const {
  if (id < 0 || id >= parts_->vocab_size) return false;
  const AddedToken* token = parts_->added.find(static_cast<std::int32_t>(id));
  return token != nullptr && token->special;
}

const std::string& Tokenizer::to_json() const { return parts_->source; }
const std::string& Tokenizer::config_json() const { return parts_->config; }
const std::string& Tokenizer::content_hash() const { return parts_->content_hash; }

void Tokenizer::save(const std::filesystem::path& folder) const {
  write_file_atomic((folder / "tokenizer.json").string(), to_json());
  write_file_atomic((folder / "tokenizer_config.json").string(), config_json());
}

}  // namespace ida::text
