// How attention is cut into independent items. Blocks start at a segment's first query and first key, so a document's
// result does not depend on what it is packed with; nothing here depends on the number of threads.
#pragma once
#include "ops/attention.h"

namespace ida::cpu {

inline constexpr std::int64_t kAttentionBlock = 64;    // queries of an item, keys of a step
inline constexpr std::int64_t kAttentionPadding = 32;  // the widest panel of any instruction set, f32 elements
inline constexpr std::int64_t kAttentionMaxHeadDim = 256;

// Queries [q_first, q_first + q_count) of one segment and one head. A single query (decoding) serves the whole
// group of heads that share `head`'s keys: then `head` is the key/value head.
struct AttentionQueryItem {
  ops::Segment segment;
  std::int64_t head = 0;
  std::int64_t q_first = 0;
  std::int64_t q_count = 0;
};

// All of one segment and one key/value head.
struct AttentionBackwardItem {
  ops::Segment segment;
  std::int64_t kv_head = 0;
  float* dot = nullptr;         // [q_rows, num_heads]: rowsum(grad_o * o), written by the item for its heads
  float* grad_q_sum = nullptr;  // [q_rows, num_heads * head_dim] f32, zero at first; grad_q itself when f32
  std::int64_t grad_q_stride = 0;
};

constexpr std::int64_t padded_head_dim(std::int64_t head_dim) {
  return (head_dim + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

// f32 elements of a thread's scratch.
constexpr std::int64_t attention_forward_scratch(const ops::AttentionDesc& desc) {
  const std::int64_t block = kAttentionBlock;
  const std::int64_t group = desc.num_heads / desc.num_kv_heads;
  const std::int64_t blocked = 4 * block * padded_head_dim(desc.head_dim) + block * kAttentionPadding;
  const std::int64_t single = (2 * block + 2 * group) * padded_head_dim(desc.head_dim) + block + 2 * group;
  return blocked > single ? blocked : single;
}
constexpr std::int64_t attention_backward_scratch(const ops::AttentionDesc& desc) {
  const std::int64_t block = kAttentionBlock;
  return 8 * block * padded_head_dim(desc.head_dim) + 2 * block * block;
}

}  // namespace ida::cpu
