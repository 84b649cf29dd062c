// SwiGLU (ops/swiglu.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

struct SwigluForward {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const void* gate_up = nullptr;  // [rows, gate cols | up cols]
  std::int64_t gate_up_stride = 0;
  void* y = nullptr;  // [rows, cols]; null: not written
  std::int64_t y_stride = 0;
  std::uint32_t* amax = nullptr;  // [1], raised to the largest magnitude of y; null: not wanted
};
cudaError_t launch_swiglu_forward(DType dtype, const SwigluForward& args, cudaStream_t stream);

struct SwigluBackward {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const void* grad_y = nullptr;
  std::int64_t grad_y_stride = 0;
  const void* gate_up = nullptr;
  std::int64_t gate_up_stride = 0;
  void* grad_gate_up = nullptr;  // may be gate_up; null: not written
  std::int64_t grad_gate_up_stride = 0;
  std::uint32_t* amax = nullptr;  // [1], raised; null: not wanted
};
cudaError_t launch_swiglu_backward(DType dtype, const SwigluBackward& args, cudaStream_t stream);

}  // namespace ida::cuda
