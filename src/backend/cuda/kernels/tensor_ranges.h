// The table of a flat buffer's tensors (ops/tensor_ranges.h), as kernels see it.
#pragma once
#include <cstdint>

namespace ida::cuda {

inline constexpr std::int64_t kRangeBlock = 4096;

struct TensorRange {
  std::int64_t offset, size, decay, first_block;
};

}  // namespace ida::cuda
