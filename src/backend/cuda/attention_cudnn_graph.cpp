#include "backend/cuda/attention_cudnn_graph.h"

#include <algorithm>
#include <cassert>

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
  Builder(TensorGraph& graph, const AttentionGraphShape& shape, bool backward)
      : graph_(graph),
        s_(shape),
        scores_dims_{shape.batch, shape.num_heads, shape.len, shape.len},
        masked_(graph.scalar(id_of(kMasked))),
        scale_(graph.scalar(id_of(kScale))) {
    if (s_.packed) {
      strides_ = offset_strides(shape, backward);
      offsets_.resize(strides_.size());
      const Shape4 dims = {s_.batch, 1, 1, 1};
      q_len_ = graph.tensor(id_of(kQLen), kI32, dims, {1, 1, 1, 1});
      kv_len_ = graph.tensor(id_of(kKvLen), kI32, dims, {1, 1, 1, 1});
    }
  }

  // [batch, heads, len, head_dim] in rows `stride` elements apart.
  GraphTensor rows(AttentionTensor id, std::int64_t heads, std::int64_t stride, cudnnDataType_t dtype = kBf16) {
    return sequence(id, dtype, {s_.batch, heads, s_.len, s_.head_dim}, {s_.len * stride, s_.head_dim, stride, 1}, stride);
  }
  // The same, seen as [batch, heads, head_dim, len].
  GraphTensor columns(AttentionTensor id, std::int64_t heads, std::int64_t stride) {
    return sequence(id, kBf16, {s_.batch, heads, s_.head_dim, s_.len}, {s_.len * stride, s_.head_dim, 1, stride}, stride);
  }
  // One f32 a row and head.
  GraphTensor row_statistic(AttentionTensor id) {
    const Shape4 strides =
        s_.packed ? Shape4{s_.len * s_.num_heads, 1, s_.num_heads, 1} : Shape4{s_.num_heads * s_.len, s_.len, 1, 1};
    return sequence(id, kF32, {s_.batch, s_.num_heads, s_.len, 1}, strides, s_.num_heads);
  }
  GraphTensor sequence(AttentionTensor id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                       std::int64_t offset_stride) {
    if (!s_.packed) return graph_.tensor(id_of(id), dtype, dims, strides);
    const GraphTensor offsets = offsets_of(offset_stride);
    return graph_.tensor(id_of(id), dtype, dims, strides, &offsets);
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
    graph_.matmul(a, b, y, {.m = q_len(), .n = kv_len()});
    return y;
  }
  GraphTensor scaled(const GraphTensor& x) { return combine(CUDNN_POINTWISE_MUL, x, scale_); }

  // -inf outside an item's own rows and columns.
  GraphTensor padded(const GraphTensor& x) {
    if (!s_.packed) return x;
    const GraphTensor row = index(x, 2), col = index(x, 3);
    const GraphTensor in_rows = compare(CUDNN_POINTWISE_CMP_LT, row, q_len_);
    const GraphTensor in_cols = compare(CUDNN_POINTWISE_CMP_LT, col, kv_len_);
    return select(x, compare(CUDNN_POINTWISE_LOGICAL_AND, in_rows, in_cols));
  }
  // -inf for keys after the query and, with a window, for those that left it.
  GraphTensor causal(const GraphTensor& x) {
    const GraphTensor row = index(x, 2), col = index(x, 3);
    const GraphTensor past = select(x, compare(CUDNN_POINTWISE_CMP_GE, row, col));
    if (s_.window == 0) return past;
    const GraphTensor first = index(past, 2), second = index(past, 3);
    const GraphTensor window = graph_.scalar(id_of(kWindow));
    const GraphTensor reach = scores(kF32);
    graph_.pointwise(CUDNN_POINTWISE_ADD, kF32, second, &window, reach);
    return select(past, compare(CUDNN_POINTWISE_CMP_GT, reach, first));
  }

  // x^T as bf16: [batch, heads, len, len] by columns.
  GraphTensor transposed_scores(const GraphTensor& x) {
    const GraphTensor y = graph_.between(kBf16, transposed(scores_dims_), transposed(dense_strides(scores_dims_)));
    graph_.reshape(x, y);
    return y;
  }

  // Sum over the query heads of a group of a^T b; `full` holds every query head before the sum.
  void grouped_product(const GraphTensor& a, const GraphTensor& b, AttentionTensor full, AttentionTensor out,
                       std::int64_t out_stride) {
    const GraphTensor y = rows(out, s_.num_kv_heads, out_stride);
    const MatmulLimits limits = {.m = kv_len(), .k = q_len()};
    if (s_.num_heads == s_.num_kv_heads) {
      graph_.matmul(a, b, y, limits);
      return;
    }
    const Shape4 dims = {s_.batch, s_.num_heads, s_.len, s_.head_dim};
    GraphTensor heads;
    if (s_.packed) {
      // Its rows lie group times as far apart as those of y; it has the offsets of y, which cuDNN multiplies by as much.
      const std::int64_t stride = out_stride * (s_.num_heads / s_.num_kv_heads);
      heads = sequence(full, kBf16, dims, {s_.len * stride, s_.head_dim, stride, 1}, out_stride);
    } else {
      heads = graph_.between(kBf16, dims, dense_strides(dims));
    }
    graph_.matmul(a, b, heads, limits);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, heads, y);
  }

  const GraphTensor* q_len() const { return s_.packed ? &q_len_ : nullptr; }
  const GraphTensor* kv_len() const { return s_.packed ? &kv_len_ : nullptr; }
  GraphTensor offsets_of(std::int64_t stride) {
    const auto at = std::find(strides_.begin(), strides_.end(), stride);
    assert(at != strides_.end());
    const auto i = static_cast<std::size_t>(at - strides_.begin());
    if (offsets_[i].id == 0) {
      offsets_[i] = graph_.tensor(id_of(kFirstOffset) + static_cast<std::int64_t>(i), CUDNN_DATA_INT64,
                                  {s_.batch + 1, 1, 1, 1}, {1, 1, 1, 1});
    }
    return offsets_[i];
  }

 private:
  GraphTensor index(const GraphTensor& like, std::int64_t axis) {
    const GraphTensor y = scores(kI32);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, kI32, like, nullptr, y, nullptr, axis);
    return y;
  }
  GraphTensor compare(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor& b) {
    const GraphTensor y = scores(kBool);
    graph_.pointwise(mode, kBool, x, &b, y);
    return y;
  }
  GraphTensor select(const GraphTensor& x, const GraphTensor& keep) {
    const GraphTensor y = scores();
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, kF32, x, &masked_, y, &keep);
    return y;
  }

  TensorGraph& graph_;
  const AttentionGraphShape& s_;
  Shape4 scores_dims_;
  GraphTensor masked_, scale_;
  GraphTensor q_len_, kv_len_;
  std::vector<std::int64_t> strides_;
  std::vector<GraphTensor> offsets_;
};

}  // namespace

std::vector<std::int64_t> offset_strides(const AttentionGraphShape& s, bool backward) {
  std::vector<std::int64_t> all = {s.q_stride, s.k_stride, s.v_stride, s.o_stride, s.num_heads};
  if (backward) all.insert(all.end(), {s.grad_o_stride, s.grad_q_stride, s.grad_k_stride, s.grad_v_stride});
  std::vector<std::int64_t> distinct;
  for (const std::int64_t stride : all) {
    if (std::find(distinct.begin(), distinct.end(), stride) == distinct.end()) distinct.push_back(stride);
  }
  return distinct;
}

void build_attention_forward(TensorGraph& graph, const AttentionGraphShape& shape) {
  Builder b(graph, shape, false);
  const GraphTensor q = b.rows(kQ, shape.num_heads, shape.q_stride);
  const GraphTensor k_t = b.columns(kK, shape.num_kv_heads, shape.k_stride);
  const GraphTensor v = b.rows(kV, shape.num_kv_heads, shape.v_stride);
  const GraphTensor o = b.rows(kO, shape.num_heads, shape.o_stride);
  const GraphTensor lse = b.row_statistic(kLse);

  const GraphTensor scores = b.causal(b.padded(b.scaled(b.product(q, k_t))));
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
  graph.matmul(p, v, o, {.m = b.q_len(), .k = b.kv_len()});
}

void build_attention_backward(TensorGraph& graph, const AttentionGraphShape& shape, bool deterministic) {
  Builder b(graph, shape, true);
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
  const GraphTensor p = b.apply(CUDNN_POINTWISE_EXP, b.causal(b.padded(shifted)));
  b.grouped_product(b.transposed_scores(p), grad_o, kGradVHeads, kGradV, shape.grad_v_stride);

  // ds = (grad_o v^T - grad_o_sum) p scale, grad_k = ds^T q
  const GraphTensor centred = b.combine(CUDNN_POINTWISE_SUB, b.product(grad_o, v_t), grad_o_sum);
  const GraphTensor ds = b.scaled(b.combine(CUDNN_POINTWISE_MUL, centred, p));
  b.grouped_product(b.transposed_scores(ds), q, kGradKHeads, kGradK, shape.grad_k_stride);

  // grad_q = ds k
  GraphTensor k;
  if (shape.packed) {
    const GraphTensor offsets = b.offsets_of(shape.k_stride);
    k = graph.between(kBf16, transposed(k_t.dims), transposed(k_t.strides), &offsets);
  } else {
    k = graph.between(kBf16, transposed(k_t.dims), transposed(k_t.strides));
  }
  graph.reshape(k_t, k);
  const GraphTensor grad_q = b.rows(kGradQ, shape.num_heads, shape.grad_q_stride);
  const MatmulLimits limits = {.m = b.q_len(), .k = b.kv_len()};
  if (deterministic) {
    graph.matmul(ds, k, grad_q, limits);
    return;
  }
  const GraphTensor grad_q_sum = shape.packed ? b.rows(kGradQSum, shape.num_heads, shape.grad_q_stride, kF32)
                                              : graph.tensor(id_of(kGradQSum), kF32, rows_dims, dense_strides(rows_dims));
  graph.matmul(ds, k, grad_q_sum, limits);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, kF32, grad_q_sum, nullptr, grad_q);
}

}  // namespace ida::cuda
