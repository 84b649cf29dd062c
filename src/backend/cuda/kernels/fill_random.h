// Made-up operands for timing: power, and so speed, depends on the values that are multiplied.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace ida::cuda {

// `size_bytes` / 2 bf16 values in [-1, 1), each a function of its position; two of them are one f32 of the same range.
cudaError_t launch_fill_random(void* memory, std::int64_t size_bytes, cudaStream_t stream);

}  // namespace ida::cuda
