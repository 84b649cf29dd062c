// A matrix product on CUDA cores (ops/gemm.h): every shape, layout and type; no library. Operands are widened to f32,
// sums run over k in ascending order.
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

inline constexpr std::int64_t kGemmSimtMaxRows = 65535 * 64;  // the grid's second dimension

struct GemmSimt {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;      // type of b, or null
  const void* residual = nullptr;  // [m, n], type of c, or null
  std::int64_t residual_stride = 0;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  const float* alpha = nullptr;  // null: 1
};
cudaError_t launch_gemm_simt(DType a_dtype, DType b_dtype, DType c_dtype, const GemmSimt& args, cudaStream_t stream);

}  // namespace ida::cuda
