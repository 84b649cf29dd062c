// RMSNorm (ops/rms_norm.h).
#pragma once
#include <cstdint>

#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

// `items` = rows * groups vectors of `cols`; item i is group i % groups of row i / groups.
struct RmsNormShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t groups = 1;
  constexpr std::int64_t items() const { return rows * groups; }
};

struct RmsNormForward {
  RmsNormShape shape;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // elements between rows
  const void* w = nullptr;
  void* y = nullptr;  // null: not written
  std::int64_t y_stride = 0;
  float* rstd = nullptr;          // [rows, groups]
  std::uint32_t* amax = nullptr;  // [1], raised to the largest magnitude of y; null: not wanted
  float eps = 0.0f;
};
cudaError_t launch_rms_norm_forward(DType dtype, const RmsNormForward& args, cudaStream_t stream);

struct RmsNormBackward {
  RmsNormShape shape;
  const void* grad_y = nullptr;
  std::int64_t grad_y_stride = 0;
  const void* x = nullptr;
  std::int64_t x_stride = 0;
  const void* w = nullptr;
  const float* rstd = nullptr;
  void* grad_x = nullptr;
  std::int64_t grad_x_stride = 0;
  bool add_to_grad_x = false;
  float* grad_w = nullptr;              // [cols], accumulated
  const float* grad_w_scale = nullptr;  // null: 1
  std::uint32_t* amax = nullptr;        // [1], raised to the largest magnitude of grad_x; null: not wanted
  float* partials = nullptr;            // [rms_norm_backward_blocks(...), cols]
  int num_sms = 0;
};
// Blocks of the backward kernel; each sums its share of grad_w in a fixed order.
std::int64_t rms_norm_backward_blocks(const RmsNormShape& shape, int num_sms);
cudaError_t launch_rms_norm_backward(DType dtype, const RmsNormBackward& args, cudaStream_t stream);

}  // namespace ida::cuda
