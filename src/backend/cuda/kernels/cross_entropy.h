// Cross-entropy of a chunk of logits, loss and gradient (ops/cross_entropy.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

struct CrossEntropy {
  std::int64_t rows = 0;
  std::int64_t vocab_size = 0;
  bool with_gradient = false;
  void* logits = nullptr;  // [rows, vocab_size], overwritten by the gradient
  std::int64_t logits_stride = 0;
  const std::int32_t* labels = nullptr;  // [rows]
  std::int32_t ignore_label = 0;
  float* nll = nullptr;  // [rows]
  const float* grad_scale = nullptr;  // null: 1
  int num_sms = 1;
  std::int64_t shared_bytes_per_block = 0;  // that a block may ask for
};
cudaError_t launch_cross_entropy(DType dtype, const CrossEntropy& args, cudaStream_t stream);

}  // namespace ida::cuda
