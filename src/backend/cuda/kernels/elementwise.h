// Small ops over whole tensors (ops/elementwise.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

// A matrix in memory.
struct Strided {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements between rows
};

cudaError_t launch_add(DType dtype, std::int64_t rows, std::int64_t cols, Strided a, Strided b, Strided y,
                       cudaStream_t stream);

// y = x rounded to y's type, or y += x.
cudaError_t launch_convert(DType from, DType to, bool accumulate, std::int64_t rows, std::int64_t cols, Strided x,
                           Strided y, cudaStream_t stream);

struct BiasGrad {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const void* grad_y = nullptr;
  std::int64_t grad_y_stride = 0;
  float* grad_bias = nullptr;    // [cols], accumulated
  const float* scale = nullptr;  // null: 1
  float* partials = nullptr;     // [bias_grad_blocks(rows), cols]
};
std::int64_t bias_grad_blocks(std::int64_t rows);
cudaError_t launch_bias_grad(DType dtype, const BiasGrad& args, cudaStream_t stream);

// result[0] = sum of x^2. `partials` has sum_squares_blocks(size) elements.
std::int64_t sum_squares_blocks(std::int64_t size);
cudaError_t launch_sum_squares(const float* x, std::int64_t size, double* partials, double* result, cudaStream_t stream);

}  // namespace ida::cuda
