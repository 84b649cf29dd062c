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
  Builder(CudnnGraph& graph, const AttentionGraphShape& shape)
      : graph_(graph),
        s_(shape),
        scores_dims_{shape.batch, shape.num_heads, shape.len, shape.len},
        masked_(graph.scalar(id_of(kMasked))),
        scale_(graph.scalar(id_of(kScale))) {
    if (s_.packed) {
      const Shape4 dims = {s_.batch, 1, 1, 1};
      q_len_ = graph.tensor(id_of(kQLen), kI32, dims, {1, 1, 1, 1});
      kv_len_ = graph.tensor(id_of(kKvLen), kI32, dims, {1, 1, 1, 1});
    }
  }

  // [batch, heads, len, head_dim] in rows of `stride` elements.
  CudnnTensor rows(AttentionTensor id, std::int64_t heads, std::int64_t stride, AttentionTensor offset,
                   cudnnDataType_t dtype = kBf16) {
    return sequence(id, dtype, {s_.batch, heads, s_.len, s_.head_dim}, {s_.len * stride, s_.head_dim, stride, 1}, offset);
  }
  // The same, seen as [batch, heads, head_dim, len].
  CudnnTensor columns(AttentionTensor id, std::int64_t heads, std::int64_t stride, AttentionTensor offset) {
    return sequence(id, kBf16, {s_.batch, heads, s_.head_dim, s_.len}, {s_.len * stride, s_.head_dim, 1, stride}, offset);
  }
  // One f32 a row and head.
  CudnnTensor row_statistic(AttentionTensor id) {
    const Shape4 strides =
        s_.packed ? Shape4{s_.len * s_.num_heads, 1, s_.num_heads, 1} : Shape4{s_.num_heads * s_.len, s_.len, 1, 1};
    return sequence(id, kF32, {s_.batch, s_.num_heads, s_.len, 1}, strides, kLseOffset);
  }
  CudnnTensor sequence(AttentionTensor id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                       AttentionTensor offset) {
    if (!s_.packed) return graph_.tensor(id_of(id), dtype, dims, strides);
    const CudnnTensor offsets = offsets_of(offset);
    return graph_.tensor(id_of(id), dtype, dims, strides, &offsets);
  }

  CudnnTensor scores(cudnnDataType_t dtype = kF32) {
    return graph_.between(dtype, scores_dims_, dense_strides(scores_dims_));
  }
  CudnnTensor row_values() {
    const Shape4 dims = {s_.batch, s_.num_heads, s_.len, 1};
    return graph_.between(kF32, dims, dense_strides(dims));
  }

  CudnnTensor combine(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b) {
    const CudnnTensor y = scores();
    graph_.pointwise(mode, kF32, x, &b, y);
    return y;
  }
  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor& x) {
    const CudnnTensor y = scores();
    graph_.pointwise(mode, kF32, x, nullptr, y);
    return y;
  }
  CudnnTensor product(const CudnnTensor& a, const CudnnTensor& b) {
    const CudnnTensor y = scores();
    graph_.matmul(a, b, y, {.m = q_len(), .n = kv_len()});
    return y;
  }
  CudnnTensor scaled(const CudnnTensor& x) { return combine(CUDNN_POINTWISE_MUL, x, scale_); }

  // -inf outside an item's own rows and columns.
  CudnnTensor padded(const CudnnTensor& x) {
    if (!s_.packed) return x;
    const CudnnTensor row = index(x, 2), col = index(x, 3);
    const CudnnTensor in_rows = compare(CUDNN_POINTWISE_CMP_LT, row, q_len_);
    const CudnnTensor in_cols = compare(CUDNN_POINTWISE_CMP_LT, col, kv_len_);
    return select(x, compare(CUDNN_POINTWISE_LOGICAL_AND, in_rows, in_cols));
  }
  // -inf for keys after the query and, with a window, for those that left it.
  CudnnTensor causal(const CudnnTensor& x) {
    const CudnnTensor row = index(x, 2), col = index(x, 3);
    const CudnnTensor past = select(x, compare(CUDNN_POINTWISE_CMP_GE, row, col));
    if (s_.window == 0) return past;
    const CudnnTensor first = index(past, 2), second = index(past, 3);
    const CudnnTensor window = graph_.scalar(id_of(kWindow));
    const CudnnTensor reach = scores(kF32);
    graph_.pointwise(CUDNN_POINTWISE_ADD, kF32, second, &window, reach);
    return select(past, compare(CUDNN_POINTWISE_CMP_GT, reach, first));
  }

  // x^T as bf16: [batch, heads, len, len] by columns.
  CudnnTensor transposed_scores(const CudnnTensor& x) {
    const CudnnTensor y = graph_.between(kBf16, transposed(scores_dims_), transposed(dense_strides(scores_dims_)));
    graph_.reshape(x, y);
    return y;
  }

  // Sum over the query heads of a group of a^T b; `full` holds every query head before the sum.
  void grouped_product(const CudnnTensor& a, const CudnnTensor& b, AttentionTensor full, AttentionTensor out,
                       std::int64_t out_stride, AttentionTensor offset) {
    const CudnnTensor y = rows(out, s_.num_kv_heads, out_stride, offset);
    const CudnnGraph::MatmulLimits limits = {.m = kv_len(), .k = q_len()};
    if (s_.num_heads == s_.num_kv_heads) {
      graph_.matmul(a, b, y, limits);
      return;
    }
    // Packed, its rows lie group times as far apart as those of y, and cuDNN multiplies y's offsets by as much.
    const std::int64_t group = s_.num_heads / s_.num_kv_heads;
    const Shape4 dims = {s_.batch, s_.num_heads, s_.len, s_.head_dim};
    const CudnnTensor heads =
        s_.packed ? rows(full, s_.num_heads, out_stride * group, offset) : graph_.between(kBf16, dims, dense_strides(dims));
    graph_.matmul(a, b, heads, limits);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, heads, y);
  }

  const CudnnTensor* q_len() const { return s_.packed ? &q_len_ : nullptr; }
  const CudnnTensor* kv_len() const { return s_.packed ? &kv_len_ : nullptr; }
  CudnnTensor offsets_of(AttentionTensor id) {
    for (const CudnnTensor& known : offsets_) {
      if (known.id == id_of(id)) return known;
    }
    offsets_.push_back(graph_.tensor(id_of(id), CUDNN_DATA_INT64, {s_.batch + 1, 1, 1, 1}, {1, 1, 1, 1}));
    return offsets_.back();
  }

 private:
  CudnnTensor index(const CudnnTensor& like, std::int64_t axis) {
    const CudnnTensor y = scores(kI32);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, kI32, like, nullptr, y, nullptr, axis);
    return y;
  }
  CudnnTensor compare(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b) {
    const CudnnTensor y = scores(kBool);
    graph_.pointwise(mode, kBool, x, &b, y);
    return y;
  }
  CudnnTensor select(const CudnnTensor& x, const CudnnTensor& keep) {
    const CudnnTensor y = scores();
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, kF32, x, &masked_, y, &keep);
    return y;
  }

  CudnnGraph& graph_;
  const AttentionGraphShape& s_;
  Shape4 scores_dims_;
  CudnnTensor masked_, scale_;
  CudnnTensor q_len_, kv_len_;
  std::vector<CudnnTensor> offsets_;
};

}  // namespace

void build_attention_forward(CudnnGraph& graph, const AttentionGraphShape& shape) {
  Builder b(graph, shape);
  const CudnnTensor q = b.rows(kQ, shape.num_heads, shape.q_stride, kQOffset);
  const CudnnTensor k_t = b.columns(kK, shape.num_kv_heads, shape.k_stride, kKOffset);
  const CudnnTensor v = b.rows(kV, shape.num_kv_heads, shape.v_stride, kVOffset);
  const CudnnTensor o = b.rows(kO, shape.num_heads, shape.o_stride, kOOffset);
  const CudnnTensor lse = b.row_statistic(kLse);

  const CudnnTensor scores = b.causal(b.padded(b.scaled(b.product(q, k_t))));
  const CudnnTensor max = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
  const CudnnTensor exp = b.apply(CUDNN_POINTWISE_EXP, b.combine(CUDNN_POINTWISE_SUB, scores, max));
  const CudnnTensor sum = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exp, sum);
  const CudnnTensor log = b.row_values();
  graph.pointwise(CUDNN_POINTWISE_LOG, kF32, sum, nullptr, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, kF32, max, &log, lse);
  const CudnnTensor p = b.scores(kBf16);
  graph.pointwise(CUDNN_POINTWISE_DIV, kF32, exp, &sum, p);
  graph.matmul(p, v, o, {.m = b.q_len(), .k = b.kv_len()});
}

void build_attention_backward(CudnnGraph& graph, const AttentionGraphShape& shape, bool deterministic) {
  Builder b(graph, shape);
  const CudnnTensor q = b.rows(kQ, shape.num_heads, shape.q_stride, kQOffset);
  const CudnnTensor k_t = b.columns(kK, shape.num_kv_heads, shape.k_stride, kKOffset);
  const CudnnTensor v_t = b.columns(kV, shape.num_kv_heads, shape.v_stride, kVOffset);
  const CudnnTensor o = b.rows(kO, shape.num_heads, shape.o_stride, kOOffset);
  const CudnnTensor grad_o = b.rows(kGradO, shape.num_heads, shape.grad_o_stride, kGradOOffset);
  const CudnnTensor lse = b.row_statistic(kLse);

  // sum over head_dim of grad_o * o
  const CudnnTensor one = graph.scalar(id_of(kOne));
  const Shape4 rows_dims = {shape.batch, shape.num_heads, shape.len, shape.head_dim};
  const CudnnTensor o_products = graph.between(kF32, rows_dims, dense_strides(rows_dims));
  graph.pointwise(CUDNN_POINTWISE_MUL, kF32, grad_o, &o, o_products);
  const CudnnTensor o_sum = b.row_values();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, o_products, o_sum);
  const CudnnTensor grad_o_sum = b.row_statistic(kGradOSum);
  graph.pointwise(CUDNN_POINTWISE_MUL, kF32, o_sum, &one, grad_o_sum);

  // p = exp(scale q k^T - lse), grad_v = p^T grad_o
  const CudnnTensor shifted = b.combine(CUDNN_POINTWISE_SUB, b.scaled(b.product(q, k_t)), lse);
  const CudnnTensor p = b.apply(CUDNN_POINTWISE_EXP, b.causal(b.padded(shifted)));
  b.grouped_product(b.transposed_scores(p), grad_o, kGradVHeads, kGradV, shape.grad_v_stride, kGradVOffset);

  // ds = (grad_o v^T - grad_o_sum) p scale, grad_k = ds^T q
  const CudnnTensor centred = b.combine(CUDNN_POINTWISE_SUB, b.product(grad_o, v_t), grad_o_sum);
  const CudnnTensor ds = b.scaled(b.combine(CUDNN_POINTWISE_MUL, centred, p));
  b.grouped_product(b.transposed_scores(ds), q, kGradKHeads, kGradK, shape.grad_k_stride, kGradKOffset);

  // grad_q = ds k
  const CudnnTensor* no_offsets = nullptr;
  const CudnnTensor k_offsets = shape.packed ? b.offsets_of(kKOffset) : CudnnTensor{};
  const CudnnTensor k =
      graph.between(kBf16, transposed(k_t.dims), transposed(k_t.strides), shape.packed ? &k_offsets : no_offsets);
  graph.reshape(k_t, k);
  const CudnnTensor grad_q = b.rows(kGradQ, shape.num_heads, shape.grad_q_stride, kGradQOffset);
  const CudnnGraph::MatmulLimits limits = {.m = b.q_len(), .k = b.kv_len()};
  if (deterministic) {
    graph.matmul(ds, k, grad_q, limits);
    return;
  }
  const std::int64_t width = shape.num_heads * shape.head_dim;
  const CudnnTensor grad_q_sum = shape.packed ? b.rows(kGradQSum, shape.num_heads, width, kGradQSumOffset, kF32)
                                              : graph.tensor(id_of(kGradQSum), kF32, rows_dims, dense_strides(rows_dims));
  graph.matmul(ds, k, grad_q_sum, limits);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, kF32, grad_q_sum, nullptr, grad_q);
}

}  // namespace ida::cuda
