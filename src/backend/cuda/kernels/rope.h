// Rotary position embedding in place (ops/rope.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

struct Rope {
  std::int64_t rows = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  bool inverse = false;
  void* x = nullptr;  // [rows, num_heads * head_dim]
  std::int64_t x_stride = 0;
  const std::int32_t* positions = nullptr;  // [rows]
  const float* cos = nullptr;               // [positions, rotary_dim / 2]
  const float* sin = nullptr;
};
cudaError_t launch_rope(DType dtype, const Rope& args, cudaStream_t stream);

}  // namespace ida::cuda
