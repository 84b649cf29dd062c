#include "data/shard_format.h"

#include <cstddef>

#include "base/sha256.h"

namespace ida::data {
namespace {

constexpr std::uint64_t aligned(std::uint64_t position) { return (position + 7) / 8 * 8; }

}  // namespace

ShardLayout shard_layout(const ShardFooter& footer) {
  ShardLayout layout;
  layout.token_width_bytes = footer.vocab_size <= 65536 ? 2 : 4;
  layout.tokens = sizeof(ShardPreamble);
  layout.mask = aligned(layout.tokens + footer.num_tokens * layout.token_width_bytes);
  layout.offsets = aligned(layout.mask + (footer.has_mask != 0 ? (footer.num_tokens + 7) / 8 : 0));
  layout.text_bytes = layout.offsets + (footer.num_documents + 1) * 8;
  layout.source_ids = layout.text_bytes + footer.num_documents * 8;
  layout.strings = aligned(layout.source_ids + footer.num_documents * 2);
  layout.hashes = aligned(layout.strings + footer.strings_bytes);
  layout.num_chunks = (layout.hashes + kShardChunkBytes - 1) / kShardChunkBytes;
  layout.footer = layout.hashes + layout.num_chunks * kShardHashBytes;
  return layout;
}

std::string footer_hash(const ShardFooter& footer) {
  return sha256_hex(std::string_view(reinterpret_cast<const char*>(&footer), offsetof(ShardFooter, footer_sha256)));
}

}  // namespace ida::data
