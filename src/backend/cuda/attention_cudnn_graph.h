// Causal attention as a graph of cuDNN operations: the patterns that its fused attention engines recognise. Every batch
// item has exactly `len` tokens, back to back.
#pragma once
#include <compare>
#include <cstdint>

#include "backend/cuda/tensor_graph.h"

namespace ida::cuda {

// Tensors of the graphs that need an address. Those of a pass are listed in attention_cudnn.cpp.
enum class AttentionTensor : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  kGradOSum,  // f32, rows' sums of grad_o * o
  kGradQSum,  // f32 grad_q before its rounding
  kScale,
  kMasked,
  kOne,  // f32 scalars; kMasked is -inf
};
constexpr std::int64_t id_of(AttentionTensor tensor) { return static_cast<std::int64_t>(tensor); }

struct AttentionGraphShape {
  std::int64_t batch = 0;
  std::int64_t len = 0;  // of every item
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  // Elements between rows.
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;
  std::int64_t grad_o_stride = 0, grad_q_stride = 0, grad_k_stride = 0, grad_v_stride = 0;
  auto operator<=>(const AttentionGraphShape&) const = default;
};

// lse: [batch, heads, len].
void build_attention_forward(TensorGraph& graph, const AttentionGraphShape& shape);

// Deterministic: grad_q is summed in a fixed order from a stored dS, [batch, heads, len, len] bf16 in cuDNN's workspace;
// otherwise in f32 by kGradQSum, whose order of additions is not fixed. cuDNN 9.19 notes neither engine as
// nondeterministic, so the graph alone decides.
void build_attention_backward(TensorGraph& graph, const AttentionGraphShape& shape, bool deterministic);

}  // namespace ida::cuda
