// The token shard file, version 1, little-endian, every section padded with zeros to 8 bytes:
//   preamble    magic "IDASHARD", u32 version, u32 0
//   tokens      u16 or u32 [num_tokens]; u16 iff vocab_size <= 65536
//   mask        only if has_mask: bit i % 8 of byte i / 8 is set iff token i may be a training target
//   offsets     u64 [num_documents + 1]: first token of each document, then num_tokens
//   text_bytes  u64 [num_documents]: bytes of the text that each document was made of
//   source_ids  u16 [num_documents]
//   strings     u32 length + bytes each: tokenizer hash, build key, source names
//   hashes      64 hex digits of SHA-256 for each chunk of kShardChunkBytes of everything above
//   footer      ShardFooter
// The footer comes last so that a shard of any size is written in one pass. Section places follow from the counts;
// there are no stored offsets that could point elsewhere.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace ida::data {

static_assert(std::endian::native == std::endian::little, "shards are read in place");

inline constexpr std::array<char, 8> kShardMagic = {'I', 'D', 'A', 'S', 'H', 'A', 'R', 'D'};
inline constexpr std::uint32_t kShardVersion = 1;
inline constexpr std::uint64_t kShardChunkBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kShardHashBytes = 64;

struct ShardPreamble {
  std::array<char, 8> magic = kShardMagic;
  std::uint32_t version = kShardVersion;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(ShardPreamble) == 16);

struct ShardFooter {
  std::uint64_t vocab_size = 0;
  std::int64_t bos_id = -1;  // every document starts with it; -1: none
  std::int64_t eos_id = -1;  // every document ends with it; -1: none
  std::uint64_t num_tokens = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t num_sources = 0;
  std::uint64_t has_mask = 0;  // 0 or 1
  std::uint64_t strings_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::array<char, kShardHashBytes> hashes_sha256{};  // of the hashes section
  std::array<char, kShardHashBytes> footer_sha256{};  // of the footer up to here
};
static_assert(sizeof(ShardFooter) == 9 * 8 + 2 * kShardHashBytes);

// Byte positions of the sections.
struct ShardLayout {
  std::uint64_t token_width_bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t mask = 0;
  std::uint64_t offsets = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t source_ids = 0;
  std::uint64_t strings = 0;
  std::uint64_t hashes = 0;
  std::uint64_t footer = 0;
  std::uint64_t num_chunks = 0;
};

// Counts must each be at most 2^56, so that no sum overflows.
ShardLayout shard_layout(const ShardFooter& footer);
std::string footer_hash(const ShardFooter& footer);

}  // namespace ida::data
