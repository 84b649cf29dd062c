// A token shard read in place. Everything is checked when it is opened: sizes, hashes, document offsets, source ids and
// every token id, so that no later read can leave the file or the vocabulary.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard_format.h"

namespace ida::data {

class TokenShard {
 public:
  // Errors: kRuntime when the file cannot be read; kCorrupt for anything that is not an intact shard, naming the file,
  // the byte or token position, and the document where there is one.
  explicit TokenShard(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(footer_.vocab_size); }
  std::int64_t num_tokens() const { return static_cast<std::int64_t>(footer_.num_tokens); }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(footer_.num_documents); }
  std::optional<std::int32_t> bos_id() const { return id_of(footer_.bos_id); }
  std::optional<std::int32_t> eos_id() const { return id_of(footer_.eos_id); }
  bool has_mask() const { return footer_.has_mask != 0; }
  const std::string& tokenizer_hash() const { return tokenizer_hash_; }
  const std::string& build_key() const { return build_key_; }
  const std::vector<std::string>& source_names() const { return source_names_; }
  // SHA-256 that covers every byte of the file.
  std::string fingerprint() const { return {footer_.footer_sha256.data(), kShardHashBytes}; }

  std::int64_t document_begin(std::int64_t document) const { return static_cast<std::int64_t>(offsets_[document]); }
  std::int64_t document_length(std::int64_t document) const {
    return static_cast<std::int64_t>(offsets_[document + 1] - offsets_[document]);
  }
  std::int32_t document_source(std::int64_t document) const { return source_ids_[document]; }
  std::int64_t document_text_bytes(std::int64_t document) const { return static_cast<std::int64_t>(text_bytes_[document]); }

  std::int32_t token(std::int64_t at) const {
    return narrow_ != nullptr ? narrow_[at] : static_cast<std::int32_t>(wide_[at]);
  }
  // Whether token `at` may be a target.
  bool trained(std::int64_t at) const { return mask_ == nullptr || (mask_[at / 8] >> (at % 8) & 1) != 0; }
  void copy_tokens(std::int64_t begin, std::int64_t count, std::int32_t* out) const;

 private:
  static std::optional<std::int32_t> id_of(std::int64_t id) {
    return id < 0 ? std::nullopt : std::optional(static_cast<std::int32_t>(id));
  }
  void read_footer();
  void check_hashes() const;
  void read_strings();
  void check_documents() const;
  void check_token_ids() const;
  bool offsets_in_order() const;
  std::string place_of(std::uint64_t byte) const;
  std::int64_t document_of(std::uint64_t token) const;

  MappedFile file_;
  ShardFooter footer_;
  ShardLayout layout_;
  const std::uint16_t* narrow_ = nullptr;
  const std::uint32_t* wide_ = nullptr;
  const std::uint8_t* mask_ = nullptr;
  const std::uint64_t* offsets_ = nullptr;
  const std::uint64_t* text_bytes_ = nullptr;
  const std::uint16_t* source_ids_ = nullptr;
  std::string tokenizer_hash_;
  std::string build_key_;
  std::vector<std::string> source_names_;
};

}  // namespace ida::data
