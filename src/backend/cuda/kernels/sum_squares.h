// Sums of squares of the tensors of a flat buffer (ops/elementwise.h).
#pragma once
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/tensor_ranges.h"

namespace ida::cuda {

struct SumSquares {
  const TensorRange* ranges = nullptr;  // [num_tensors]
  std::int64_t num_tensors = 0;
  std::int64_t num_blocks = 0;
  const float* x = nullptr;
  double* partials = nullptr;  // [num_blocks]
  double* result = nullptr;    // [num_tensors]
};
cudaError_t launch_sum_squares(const SumSquares& args, cudaStream_t stream);

}  // namespace ida::cuda
