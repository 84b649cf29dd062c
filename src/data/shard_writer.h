// Writes a token shard in one pass: documents in order, then finish(). Until finish() the path is untouched.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "data/shard_format.h"

namespace ida::data {

struct ShardInfo {
  std::int64_t vocab_size = 0;
  std::optional<std::int32_t> bos_id;  // set iff every document starts with it
  std::optional<std::int32_t> eos_id;  // set iff every document ends with it
  bool has_mask = false;               // keeps a mask even if every token may be a target
  std::string tokenizer_hash;
  std::string build_key;  // what the shard was made from; compared to reuse it
  std::vector<std::string> source_names;
};

struct ShardDocument {
  std::span<const std::int32_t> tokens;
  std::span<const std::uint8_t> trained;  // one per token, nonzero: may be a target; empty: all
  std::int32_t source = 0;
  std::uint64_t text_bytes = 0;
};

class ShardWriter {
 public:
  ShardWriter(const std::string& path, ShardInfo info);
  // Errors: kRuntime for a token id outside [0, vocab_size), naming document and position.
  void add_document(const ShardDocument& document);
  std::string finish();  // returns TokenShard::fingerprint

  std::int64_t num_documents() const { return static_cast<std::int64_t>(text_bytes_.size()); }
  std::int64_t num_tokens() const { return static_cast<std::int64_t>(offsets_.back()); }

 private:
  void put(std::span<const std::byte> bytes);
  void add_to_mask(const ShardDocument& document);
  void put_aligned(std::span<const std::byte> bytes);
  template <typename T>
  void put_tokens(const ShardDocument& document);

  DurableFileWriter file_;
  ShardInfo info_;
  std::vector<std::uint64_t> offsets_ = {0};
  std::vector<std::uint64_t> text_bytes_;
  std::vector<std::uint16_t> source_ids_;
  std::vector<std::uint8_t> mask_;
  std::vector<std::byte> staging_;
  Sha256 chunk_hash_;
  std::uint64_t chunk_used_bytes_ = 0;
  std::string hashes_;
};

}  // namespace ida::data
