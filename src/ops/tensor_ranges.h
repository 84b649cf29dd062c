// The tensors of a flat buffer, as a table that ops read from device memory: one call covers all of them. Work is shared
// out in blocks of kRangeBlock elements, each of one tensor; a tensor's last block may be short.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace ida::ops {

inline constexpr std::int64_t kRangeBlock = 4096;

struct TensorRange {
  std::int64_t offset = 0;  // elements from the start of the flat buffer
  std::int64_t size = 0;
  std::int64_t decay = 0;        // 1: weight decay applies
  std::int64_t first_block = 0;  // blocks of the tensors before
};
static_assert(sizeof(TensorRange) == 4 * sizeof(std::int64_t));

constexpr std::int64_t range_blocks(std::int64_t size) { return (size + kRangeBlock - 1) / kRangeBlock; }

// Fills in first_block; returns the number of blocks.
inline std::int64_t number_blocks(std::vector<TensorRange>& ranges) {
  std::int64_t blocks = 0;
  for (TensorRange& range : ranges) {
    range.first_block = blocks;
    blocks += range_blocks(range.size);
  }
  return blocks;
}

// Elements [begin, end) of the flat buffer, of one tensor.
struct RangeBlock {
  const TensorRange* range;
  std::int64_t begin;
  std::int64_t end;
};
inline RangeBlock block_of(const TensorRange* ranges, std::int64_t num_tensors, std::int64_t block) {
  const TensorRange* after = std::upper_bound(ranges, ranges + num_tensors, block,
                                              [](std::int64_t b, const TensorRange& r) { return b < r.first_block; });
  const TensorRange& range = *(after - 1);
  const std::int64_t begin = (block - range.first_block) * kRangeBlock;
  return {&range, range.offset + begin, range.offset + std::min(begin + kRangeBlock, range.size)};
}

}  // namespace ida::ops
