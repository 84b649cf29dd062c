// Attention on CUDA cores in f32 arithmetic (no TF32): any head_dim up to 256, operands f32 or bf16. Made to be right
// and total, the last entry of the lists: exact expf, every product and sum in f32 by fused multiply-adds.
//
// A block owns 32 rows (queries, or keys for dK and dV) of a head in shared memory; tiles of 16 rows stream past. Eight
// lanes share a row: lane c takes columns c and c + 8 of the streamed tile and elements c, c + 8, ... of the head.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/attention_problem.h"

namespace ida::cuda {

inline constexpr int kAttentionF32MaxHeadDim = 256;

std::int64_t attention_forward_f32_workspace(const AttentionProblem& problem);
template <typename T>
cudaError_t attention_forward_f32(const AttentionForward<T>& args, cudaStream_t stream);

std::int64_t attention_backward_f32_workspace(const AttentionProblem& problem);
template <typename T>
cudaError_t attention_backward_f32(const AttentionBackward<T>& args, cudaStream_t stream);

}  // namespace ida::cuda
