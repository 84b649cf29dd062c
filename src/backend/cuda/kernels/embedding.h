// Embedding lookup and its gradient (ops/embedding.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

struct EmbeddingForward {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::int32_t* ids = nullptr;  // [rows]
  const void* table = nullptr;        // [vocab_size, cols]
  std::int64_t table_stride = 0;
  void* y = nullptr;  // [rows, cols]
  std::int64_t y_stride = 0;
};
cudaError_t launch_embedding_forward(DType dtype, const EmbeddingForward& args, cudaStream_t stream);

struct EmbeddingBackward {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t vocab_size = 0;
  const std::int32_t* ids = nullptr;
  const void* grad_y = nullptr;
  std::int64_t grad_y_stride = 0;
  float* grad_table = nullptr;  // [vocab_size, cols], accumulated
  std::int64_t grad_table_stride = 0;
  const float* scale = nullptr;       // null: 1
  std::int32_t* workspace = nullptr;  // embedding_backward_workspace(rows, vocab_size) elements
};
std::int64_t embedding_backward_workspace(std::int64_t rows, std::int64_t vocab_size);
cudaError_t launch_embedding_backward(DType dtype, const EmbeddingBackward& args, cudaStream_t stream);

}  // namespace ida::cuda
