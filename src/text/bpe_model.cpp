#include "text/bpe_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/merge_word.h"
#include "text/unicode.h"
#include "text/word_cache.h"

namespace ida::text {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

std::uint32_t next_cache_owner() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

// Vocabularies without the byte alphabet may hold the bytes raw: the ASCII character itself, or `\xNN`.
std::optional<unsigned char> raw_byte_token(std::string_view token) {
  if (token.size() == 1) return static_cast<unsigned char>(token[0]);
  if (token.size() != 4 || token[0] != '\\' || token[1] != 'x') return std::nullopt;
  for (int byte = 128; byte < 256; ++byte) {
    if (token == fmt::format("\\x{:02x}", byte)) return static_cast<unsigned char>(byte);
  }
  return std::nullopt;
}

}  // namespace

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary, const std::vector<MergeRule>& merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), cache_owner_(next_cache_owner()) {
  merges_.reserve(merges.size());
  for (const MergeRule& rule : merges) merges_.set(rule.left, rule.right, rule.merge);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token =
        options_.byte_level ? bytes_to_alphabet(std::string(1, static_cast<char>(byte))) : fmt::format("<0x{:02X}>", byte);
    byte_ids_[static_cast<std::size_t>(byte)] = vocabulary_->id_of(token);
  }
  if (!options_.unk_token.empty()) unk_id_ = vocabulary_->id_of(options_.unk_token);
  if (options_.byte_level) {
    prepare_bytes();
  } else {
    prepare_characters(merges);
  }
  std::vector<std::int32_t> symbols;
  for (const std::int32_t id : byte_ids_) symbols.push_back(id);
  for (const auto& [code, id] : char_ids_) symbols.push_back(id);
  symbols.push_back(unk_id_);
  std::erase(symbols, kNoToken);
  joins_ = JoinFilter(*vocabulary_, merges, symbols);
}

void BpeModel::prepare_bytes() {
  const std::array<std::int32_t, 256> alphabet_ids = byte_ids_;
  token_bytes_.resize(static_cast<std::size_t>(vocabulary_->size()));
  for (std::int32_t id = 0; id < vocabulary_->size(); ++id) {
    if (!vocabulary_->has(id)) continue;
    const std::string& token = vocabulary_->token_of(id);
    std::string& bytes = token_bytes_[static_cast<std::size_t>(id)];
    const std::optional<unsigned char> raw = raw_byte_token(token);
    if (raw && alphabet_ids[*raw] == kNoToken) {
      byte_ids_[*raw] = id;
      bytes = std::string(1, static_cast<char>(*raw));
      continue;
    }
    const std::optional<std::string> spelled = alphabet_to_bytes(token);
    bytes = spelled.value_or(token);
    if (spelled && options_.ignore_merges) id_of_bytes_.emplace(bytes, id);
  }
}

void BpeModel::prepare_characters(const std::vector<MergeRule>& merges) {
  for (std::int32_t id = 0; id < vocabulary_->size(); ++id) {
    if (!vocabulary_->has(id)) continue;
    const std::string& token = vocabulary_->token_of(id);
    if (token.empty()) continue;
    const Utf8Char c = decode_utf8(token, 0);
    if (c.valid && c.length == token.size()) char_ids_.emplace(c.code, id);
  }
  cut_before_metaspace_ = !options_.ignore_merges && vocabulary_->id_of(kMetaspace) != kNoToken;
  for (const MergeRule& rule : merges) {
    const std::string& left = vocabulary_->token_of(rule.left);
    const std::string& right = vocabulary_->token_of(rule.right);
    if (right.starts_with(kMetaspace) && !left.ends_with(kMetaspace)) cut_before_metaspace_ = false;
  }
}

void BpeModel::encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
  if (!cut_before_metaspace_ || word.size() <= kMetaspace.size()) return encode_segment(word, out);
  std::size_t begin = 0;
  std::size_t after = 0;  // end of the last U+2581 seen
  for (std::size_t at = word.find(kMetaspace); at != std::string_view::npos; at = word.find(kMetaspace, after)) {
    if (at > begin && at != after) {
      encode_segment(word.substr(begin, at - begin), out);
      begin = at;
    }
    after = at + kMetaspace.size();
  }
  encode_segment(word.substr(begin), out);
}

void BpeModel::encode_segment(std::string_view segment, std::vector<std::int32_t>& out) const {
  if (segment.size() > WordCache::kMaxBytes) {
    std::vector<std::int32_t> ids;
    encode_uncached(segment, ids);
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  WordCache::Entry& entry = WordCache::of_this_thread().slot(segment);
  if (WordCache::holds(entry, cache_owner_, segment)) {
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.num_ids);
    return;
  }
  thread_local std::vector<std::int32_t> ids;
  encode_uncached(segment, ids);
  out.insert(out.end(), ids.begin(), ids.end());
  if (ids.size() <= WordCache::kMaxIds) WordCache::store(entry, cache_owner_, segment, ids);
}

std::int32_t BpeModel::whole_word(std::string_view word) const {
  if (!options_.byte_level) return vocabulary_->id_of(word);
  const auto it = id_of_bytes_.find(word);
  return it == id_of_bytes_.end() ? kNoToken : it->second;
}

void BpeModel::encode_uncached(std::string_view segment, std::vector<std::int32_t>& ids) const {
  ids.clear();
  if (options_.ignore_merges) {
    if (const std::int32_t id = whole_word(segment); id != kNoToken) {
      ids.push_back(id);
      return;
    }
  }
  if (options_.byte_level) {
    append_bytes(segment, ids);
  } else {
    append_characters(segment, ids);
  }
  if (ids.size() <= kShortWord) {
    merge_word(merges_, ids);
  } else {
    merge_pieces(ids);
  }
}

void BpeModel::merge_pieces(std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> piece;
  std::size_t out = 0;  // a piece never grows, so its result fits where it was
  for (std::size_t begin = 0; begin < ids.size();) {
    std::size_t end = begin + 1;
    while (end < ids.size() && joins_.may_join(ids[end - 1], ids[end])) ++end;
    piece.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end));
    merge_word(merges_, piece);
    std::copy(piece.begin(), piece.end(), ids.begin() + static_cast<std::ptrdiff_t>(out));
    out += piece.size();
    begin = end;
  }
  ids.resize(out);
}

void BpeModel::append_bytes(std::string_view segment, std::vector<std::int32_t>& ids) const {
  bool after_unknown = false;
  for (const char c : segment) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id != kNoToken) {
      ids.push_back(id);
    } else if (unk_id_ != kNoToken && !(options_.fuse_unk && after_unknown)) {
      ids.push_back(unk_id_);
    }
    after_unknown = id == kNoToken;
  }
}

bool BpeModel::append_byte_tokens(std::string_view character, std::vector<std::int32_t>& ids) const {
  if (!options_.byte_fallback) return false;
  for (const char c : character) {
    if (byte_ids_[static_cast<unsigned char>(c)] == kNoToken) return false;
  }
  for (const char c : character) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  return true;
}

void BpeModel::append_characters(std::string_view segment, std::vector<std::int32_t>& ids) const {
  bool after_unknown = false;
  for (std::size_t i = 0; i < segment.size();) {
    const Utf8Char c = decode_utf8(segment, i);
    const std::string_view character = segment.substr(i, c.length);
    i += c.length;
    const auto found = c.valid ? char_ids_.find(c.code) : char_ids_.end();
    if (found != char_ids_.end()) {
      ids.push_back(found->second);
      after_unknown = false;
    } else if (append_byte_tokens(character, ids)) {
      after_unknown = false;
    } else if (unk_id_ != kNoToken && !(options_.fuse_unk && after_unknown)) {
      ids.push_back(unk_id_);
      after_unknown = true;
    }
  }
}

}  // namespace ida::text
