#include "backend/cuda/attention_cudnn_graph.h"

namespace ida::cuda {
namespace {

using enum AttentionTensor;

constexpr cudnnDataType_t kF32 = CUDNN_DATA_FLOAT;
constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16;
constexpr cudnnDataType_t kI32 = CUDNN_DATA_INT32;
constexpr cudnnDataType_t kBool = CUDNN_DATA_BOOLEAN;

Shape4 transposed(const Shape4& shape) { return {shape[0], shape[1], shape[3], shape[2]}; }

// Builds tensors and operations of one pass over one shape.
class Builder {
 public:
  Builder(TensorGraph& graph, const AttentionGraphShape& shape)
      : graph_(graph),
        s_(shape),
        scores_dims_{shape.batch, shape.num_heads, shape.len, shape.len},
        masked_(graph.scalar(id_of(kMasked))),
        scale_(graph.scalar(id_of(kScale))) {}

  // [batch, heads, len, head_dim] in rows `stride` elements apart.
  GraphTensor rows(AttentionTensor id, std::int64_t heads, std::int64_t stride) {
    return graph_.tensor(id_of(id), kBf16, {s_.batch, heads, s_.len, s_.head_dim},
                         {s_.len * stride, s_.head_dim, stride, 1});
  }
  // The same, seen as [batch, heads, head_dim, len].
  GraphTensor columns(AttentionTensor id, std::int64_t heads, std::int64_t stride) {
    return graph_.tensor(id_of(id), kBf16, {s_.batch, heads, s_.head_dim, s_.len},
                         {s_.len * stride, s_.head_dim, 1, stride});
  }
  // One f32 a row and head.
  GraphTensor row_statistic(AttentionTensor id) {
    return graph_.tensor(id_of(id), kF32, {s_.batch, s_.num_heads, s_.len, 1}, {s_.num_heads * s_.len, s_.len, 1, 1});
  }

  GraphTensor scores(cudnnDataType_t dtype = kF32) {
    return graph_.between(dtype, scores_dims_, dense_strides(scores_dims_));
  }
  GraphTensor row_values() {
    const Shape4 dims = {s_.batch, s_.num_heads, s_.len, 1};
    return graph_.between(kF32, dims, dense_strides(dims));
  }

  GraphTensor combine(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor& b) {
    const GraphTensor y = scores();
    graph_.pointwise(mode, kF32, x, &b, y);
    return y;
  }
  GraphTensor apply(cudnnPointwiseMode_t mode, const GraphTensor& x) {
    const GraphTensor y = scores();
    graph_.pointwise(mode, kF32, x, nullptr, y);
    return y;
  }
  GraphTensor product(const GraphTensor& a, const GraphTensor& b) {
    const GraphTensor y = scores();
    graph_.matmul(a, b, y);
    return y;
  }
  GraphTensor scaled(const GraphTensor& x) { return combine(CUDNN_POINTWISE_MUL, x, scale_); }

  // -inf for keys after the query.
  GraphTensor causal(const GraphTensor& x) {
    const GraphTensor row = index(x, 2), col = index(x, 3);
    const GraphTensor seen = scores(kBool);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, kBool, row, &col, seen);
    const GraphTensor y = scores();
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, kF32, x, &masked_, y, &seen);
    return y;
  }

  // x^T as bf16: [batch, heads, len, len] by columns.
  GraphTensor transposed_scores(const GraphTensor& x) {
    const GraphTensor y = graph_.between(kBf16, transposed(scores_dims_), transposed(dense_strides(scores_dims_)));
    graph_.reshape(x, y);
    return y;
  }

  // Sum over the query heads of a group of a^T b.
  void grouped_product(const GraphTensor& a, const GraphTensor& b, AttentionTensor out, std::int64_t out_stride) {
    const GraphTensor y = rows(out, s_.num_kv_heads, out_stride);
    if (s_.num_heads == s_.num_kv_heads) {
      graph_.matmul(a, b, y);
      return;
    }
    const Shape4 dims = {s_.batch, s_.num_heads, s_.len, s_.head_dim};
    const GraphTensor heads = graph_.between(kBf16, dims, dense_strides(dims));
    graph_.matmul(a, b, heads);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, heads, y);
  }

 private:
  GraphTensor index(const GraphTensor& like, std::int64_t axis) {
    const GraphTensor y = scores(kI32);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, kI32, like, nullptr, y, nullptr, axis);
    return y;
  }

  TensorGraph& graph_;
  const AttentionGraphShape& s_;
  Shape4 scores_dims_;
  GraphTensor masked_, scale_;
};

}  // namespace

void build_attention_forward(TensorGraph& graph, const AttentionGraphShape& shape) {
  Builder b(graph, shape);
  const GraphTensor q = b.rows(kQ, shape.num_heads, shape.q_stride);
  const GraphTensor k_t = b.columns(kK, shape.num_kv_heads, shape.k_stride);
  const GraphTensor v = b.rows(kV, shape.num_kv_heads, shape.v_stride);
  const GraphTensor o = b.rows(kO, shape.num_heads, shape.o_stride);
  const GraphTensor lse = b.row_statistic(kLse);

  const GraphTensor scores = b.causal(b.scaled(b.product(q, k_t)));
  const GraphTensor max = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
  const GraphTensor exp = b.apply(CUDNN_POINTWISE_EXP, b.combine(CUDNN_POINTWISE_SUB, scores, max));
  const GraphTensor sum = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exp, sum);
  const GraphTensor log = b.row_values();
  graph.pointwise(CUDNN_POINTWISE_LOG, kF32, sum, nullptr, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, kF32, max, &log, lse);
  const GraphTensor p = b.scores(kBf16);
  graph.pointwise(CUDNN_POINTWISE_DIV, kF32, exp, &sum, p);
  graph.matmul(p, v, o);
}

void build_attention_backward(TensorGraph& graph, const AttentionGraphShape& shape, bool deterministic) {
  Builder b(graph, shape);
  const GraphTensor q = b.rows(kQ, shape.num_heads, shape.q_stride);
  const GraphTensor k_t = b.columns(kK, shape.num_kv_heads, shape.k_stride);
  const GraphTensor v_t = b.columns(kV, shape.num_kv_heads, shape.v_stride);
  const GraphTensor o = b.rows(kO, shape.num_heads, shape.o_stride);
  const GraphTensor grad_o = b.rows(kGradO, shape.num_heads, shape.grad_o_stride);
  const GraphTensor lse = b.row_statistic(kLse);

  // sum over head_dim of grad_o * o
  const GraphTensor one = graph.scalar(id_of(kOne));
  const Shape4 rows_dims = {shape.batch, shape.num_heads, shape.len, shape.head_dim};
  const GraphTensor o_products = graph.between(kF32, rows_dims, dense_strides(rows_dims));
  graph.pointwise(CUDNN_POINTWISE_MUL, kF32, grad_o, &o, o_products);
  const GraphTensor o_sum = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, o_products, o_sum);
  const GraphTensor grad_o_sum = b.row_statistic(kGradOSum);
  graph.pointwise(CUDNN_POINTWISE_MUL, kF32, o_sum, &one, grad_o_sum);

  // p = exp(scale q k^T - lse), grad_v = p^T grad_o
  const GraphTensor shifted = b.combine(CUDNN_POINTWISE_SUB, b.scaled(b.product(q, k_t)), lse);
  const GraphTensor p = b.apply(CUDNN_POINTWISE_EXP, b.causal(shifted));
  b.grouped_product(b.transposed_scores(p), grad_o, kGradV, shape.grad_v_stride);

  // ds = (grad_o v^T - grad_o_sum) p scale, grad_k = ds^T q
  const GraphTensor centred = b.combine(CUDNN_POINTWISE_SUB, b.product(grad_o, v_t), grad_o_sum);
  const GraphTensor ds = b.scaled(b.combine(CUDNN_POINTWISE_MUL, centred, p));
  b.grouped_product(b.transposed_scores(ds), q, kGradK, shape.grad_k_stride);

  // grad_q = ds k
  const GraphTensor k = graph.between(kBf16, transposed(k_t.dims), transposed(k_t.strides));
  graph.reshape(k_t, k);
  const GraphTensor grad_q = b.rows(kGradQ, shape.num_heads, shape.grad_q_stride);
  if (deterministic) {
    graph.matmul(ds, k, grad_q);
    return;
  }
  const GraphTensor grad_q_sum = graph.tensor(id_of(kGradQSum), kF32, rows_dims, dense_strides(rows_dims));
  graph.matmul(ds, k, grad_q_sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, kF32, grad_q_sum, nullptr, grad_q);
}

}  // namespace ida::cuda
