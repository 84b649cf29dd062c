// The tensor that a block of a flat buffer belongs to.
#pragma once
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/tensor_ranges.h"

namespace ida::cuda {

// Place in the table of the tensor that holds `block`: the last whose first block is not beyond it. A warp looks at 32
// places at a time, so that some hundreds of tensors take two accesses; every lane of it calls.
__device__ inline std::int64_t tensor_of_block(const TensorRange* ranges, std::int64_t num_tensors, std::int64_t block) {
  std::int64_t begin = 0;
  std::int64_t end = num_tensors;
  while (end - begin > 1) {
    const std::int64_t step = (end - begin + kWarpSize - 1) / kWarpSize;
    const std::int64_t at = begin + static_cast<int>(threadIdx.x) % kWarpSize * step;
    const int below = __popc(__ballot_sync(0xffffffffu, at < end && ranges[at].first_block <= block));
    begin += (below - 1) * step;
    if (begin + step < end) end = begin + step;
  }
  return begin;
}

}  // namespace ida::cuda
