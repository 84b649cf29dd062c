// Attention in bf16 on mma.sync (sm_80 and later): f32 accumulation, online softmax, no atomics on values.
//
// Forward, per tile of queries: S = Q K^T by tiles of keys, P = 2^(S - max) in bf16, O += P V, O / sum at the end.
// Backward works from the saved lse: P = 2^(S - lse), dP = dO V^T, dS = P * (dP - delta).
//   dK and dV, per tile of keys: S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T leave the products in the registers
//   from which dV += P^T dO and dK += dS^T Q take them; the query heads of a group are added in the same registers, in
//   order. dQ, per tile of queries, computes S and dP again: 7 products where sums with atomics need 5. At T 2048 with
//   16384 tokens of 32 x 64 a product is 69 GFLOP, so that costs 137 GFLOP, 0.6 ms at 230 TFLOP/s. Partial dQ in f32, one
//   a tile of 128 keys and added in order, would be 8 matrices on average: 1.1 GB of workspace, written and read in 0.5 ms
//   at 4.2 TB/s. Much the same time, without the gigabyte. dK and dV of head_dim above 128 do not fit the registers
//   together and take a sweep each (8 products).
//
// Any even head_dim up to 256: shared memory and registers are padded with zeros to 32, 64, 96, 128, 192 or 256.
// Tiles are counted from a segment's first row, so a document's result does not depend on what it is packed with.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/attention_problem.h"
#include "formats/bf16.h"

namespace ida::cuda {

// Rows start at multiples of 4 bytes; the scale is above 0.
std::int64_t attention_forward_mma_workspace(const AttentionProblem& problem);
cudaError_t attention_forward_mma(const AttentionForward<bf16>& args, cudaStream_t stream);

std::int64_t attention_backward_mma_workspace(const AttentionProblem& problem);
cudaError_t attention_backward_mma(const AttentionBackward<bf16>& args, cudaStream_t stream);

}  // namespace ida::cuda
