// What every launch function of this folder shares. Launch functions enqueue on `stream` and return the launch's error.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "formats/bf16.h"

namespace ida::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Grid of a loop over `items` with `per_block` items a block and turn. The x dimension takes 2^31 - 1 blocks; a kernel
// strides by its grid, so a smaller one is right too.
inline unsigned grid_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(items, per_block), 1, 0x7fffffff));
}

inline bool aligned_to(const void* p, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(bytes) == 0;
}

// Calls f.template operator()<float>() or <bf16>().
template <typename F>
cudaError_t with_float_type(DType dtype, F&& f) {
  return dtype == DType::kBF16 ? f.template operator()<bf16>() : f.template operator()<float>();
}

}  // namespace ida::cuda
