// Causal attention as a graph of cuDNN operations: the patterns that its fused attention engines recognise.
//
// Two forms. Uniform: every batch item has exactly `len` tokens, back to back. Packed: items start at offsets and have
// lengths that lie in device memory, so that the same plan serves any table of documents.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "backend/cuda/tensor_graph.h"

namespace ida::cuda {

// Tensors of the graphs that need an address. Those of a pass and form are listed in attention_cudnn.cpp.
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
  kGradKHeads,
  kGradVHeads,  // grad_k, grad_v of every query head, before the sum over the group
  kQLen,
  kKvLen,  // i32 [batch]
  kScale,
  kMasked,
  kOne,
  kWindow,  // f32 scalars; kMasked is -inf
  kFirstOffset = 100
};
constexpr std::int64_t id_of(AttentionTensor tensor) { return static_cast<std::int64_t>(tensor); }

struct AttentionGraphShape {
  bool packed = false;
  std::int64_t batch = 0;
  std::int64_t len = 0;  // of every item; packed: of the longest
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: none
  // Elements between rows. With groups, packed grad_k and grad_v of every query head lie group times as far apart.
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;
  std::int64_t grad_o_stride = 0, grad_q_stride = 0, grad_k_stride = 0, grad_v_stride = 0;
  auto operator<=>(const AttentionGraphShape&) const = default;
};

// Packed: row strides of the tensors of a pass, each once. Offsets of the documents in tensors of the i-th stride, i64
// [batch + 1] in elements, are the tensor with id kFirstOffset + i.
std::vector<std::int64_t> offset_strides(const AttentionGraphShape& shape, bool backward);

// lse: uniform [batch, heads, len], packed [rows, heads].
void build_attention_forward(TensorGraph& graph, const AttentionGraphShape& shape);

// Deterministic: grad_q is summed in a fixed order from a stored dS, [batch, heads, len, len] bf16 in cuDNN's workspace;
// otherwise in f32 by kGradQSum, whose order of additions is not fixed.
void build_attention_backward(TensorGraph& graph, const AttentionGraphShape& shape, bool deterministic);

}  // namespace ida::cuda
