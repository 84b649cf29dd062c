#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace ida::text {
namespace {

const nlohmann::json kNull;

const nlohmann::json& section(const JsonPart& root, std::string_view key) {
  const nlohmann::json* value = root.find(key);
  return value == nullptr ? kNull : *value;
}

// Collects the added tokens of both files and checks that they agree with the model's vocabulary and each other.
class AddedTokenList {
 public:
  explicit AddedTokenList(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  bool has(std::string_view content) const { return contents_.contains(content); }

  void add(AddedToken token, const std::string& where) {
    const std::string name = printable_excerpt(token.content);
    if (token.content.empty()) fail_corrupt("{}: added token {} is the empty string", where, token.id);
    const std::int32_t known = vocabulary_.id_of(token.content);
    if (known != kNoToken && known != token.id) {
      fail_corrupt("{}: added token `{}` has id {}, the vocabulary gives it {}", where, name, token.id, known);
    }
    if (known == kNoToken && vocabulary_.has(token.id)) {
      fail_corrupt("{}: added token `{}` has id {}, which is `{}` in the vocabulary", where, name, token.id,
                   printable_excerpt(vocabulary_.token_of(token.id)));
    }
    if (!contents_.emplace(token.content, token.id).second || !ids_.insert(token.id).second) {
      fail_corrupt("{}: added token `{}` (id {}) or its id is given twice", where, name, token.id);
    }
    tokens_.push_back(std::move(token));
  }

  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  const Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  StringMap<std::int32_t> contents_;
  std::unordered_set<std::int32_t> ids_;
};

std::vector<AddedToken> read_added_tokens(const JsonPart& root, const TokenizerConfig& config,
                                          const Vocabulary& vocabulary) {
  AddedTokenList list(vocabulary);
  if (root.find("added_tokens") != nullptr) {
    for (const JsonPart& part : root.parts("added_tokens")) {
      part.allow_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      list.add(read_added_token(part, part.integer("id", -1)), root.where());
    }
  }
  // The configuration adds the tokens that tokenizer.json does not have.
  for (const AddedToken& token : config.added_tokens) {
    if (!list.has(token.content)) list.add(token, root.where() + " with tokenizer_config.json");
  }
  return list.take();
}

std::string hash_of(const nlohmann::json& root, const TokenizerParts& parts) {
  nlohmann::json canonical = root;
  canonical.erase("truncation");
  canonical.erase("padding");
  const auto id_or_null = [](std::optional<std::int32_t> id) { return id ? nlohmann::json(*id) : nlohmann::json(); };
  nlohmann::json special = {{"bos", id_or_null(parts.bos)},
                            {"eos", id_or_null(parts.eos)},
                            {"pad", id_or_null(parts.pad)},
                            {"before", parts.around.before},
                            {"after", parts.around.after}};
  for (const AddedToken& token : parts.added.tokens()) {
    special["added"].push_back(
        {token.id, token.content, token.single_word, token.lstrip, token.rstrip, token.normalized, token.special});
  }
  return sha256_hex(canonical.dump() + "\n" + special.dump());
}

TokenizerParts read_parts(std::string_view tokenizer_json, std::string_view config_json, std::string_view origin) {
  const nlohmann::json json = parse_json(tokenizer_json, origin);
  const JsonPart root(json, std::string(origin));
  root.allow_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  const auto at = [&](std::string_view key) { return fmt::format("{}: {}", origin, key); };
  TokenizerConfig config;
  if (!config_json.empty()) config = read_tokenizer_config(config_json, origin);

  TokenizerParts parts;
  parts.normalizer = Normalizer(section(root, "normalizer"), at("normalizer"));
  parts.pre_tokenizer = PreTokenizer(section(root, "pre_tokenizer"), at("pre_tokenizer"));
  parts.decoder = Decoder(section(root, "decoder"), at("decoder"));
  parts.around = read_post_processor(section(root, "post_processor"), at("post_processor"));
  parts.model = read_bpe_model(root.part("model"), parts.pre_tokenizer.byte_level());
  parts.vocab_size = parts.model.vocabulary().size();
  std::vector<AddedToken> added = read_added_tokens(root, config, parts.model.vocabulary());
  for (const AddedToken& token : added) parts.vocab_size = std::max<std::int64_t>(parts.vocab_size, token.id + 1);
  parts.added = AddedTokens(std::move(added), parts.normalizer);
  resolve_special_tokens(parts, config, origin);
  parts.source = tokenizer_json;
  parts.config = config_json.empty() ? make_tokenizer_config(parts) : std::string(config_json);
  parts.content_hash = hash_of(json, parts);
  return parts;
}

std::string find_tokenizer_file(const std::filesystem::path& path) {
  if (!is_directory(path.string())) return path.string();
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const std::string file = (path / name).string();
    if (path_exists(file)) return file;
  }
  fail_usage("{}: no tokenizer here: expected a file tokenizer.json or tokenizer.model in this folder", path.string());
}

bool looks_like_json(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || content[first] == '{' || content[first] == '[';
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view origin) {
  return Tokenizer(std::make_shared<const TokenizerParts>(read_parts(tokenizer_json, config_json, origin)));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json) { return from_json(tokenizer_json, {}, "tokenizer.json"); }

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::string file = find_tokenizer_file(path);
  if (!is_regular_file(file)) {
    fail_usage("{}: no such file: expected a tokenizer.json, a rank file or their folder", printable_excerpt(file));
  }
  std::string content = read_file(file);
  const std::string config_file = (std::filesystem::path(file).parent_path() / "tokenizer_config.json").string();
  const std::string config = path_exists(config_file) ? read_file(config_file) : std::string();
  if (!looks_like_json(content)) content = tokenizer_json_of_ranks(content, file);
  return from_json(content, config, file);
}

}  // namespace ida::text
