#include "ops/context.h"

#include <cassert>

namespace ida::ops {
namespace {

void expect(std::string_view op, std::string_view name, const TensorView& view, std::int64_t rows, std::int64_t cols,
            DType dtype) {
  if (view.data == nullptr)
    fail_runtime("[{}] {}: expected [{}, {}] {}, got no tensor", op, name, rows, cols, dtype_name(dtype));
  if (view.rows != rows || view.cols != cols || view.dtype != dtype || (rows > 1 && view.row_stride < cols))
    fail_runtime("[{}] {}: expected [{}, {}] {}, got [{}, {}] {} with row stride {}", op, name, rows, cols,
                 dtype_name(dtype), view.rows, view.cols, dtype_name(view.dtype), view.row_stride);
}

template <typename Desc, typename Args>
void launch(Context& context, const Impl<Desc, Args>& impl, const Desc& desc, const Args& args, std::string_view op) {
  const std::int64_t workspace_bytes = impl.workspace_bytes != nullptr ? impl.workspace_bytes(desc, context.device) : 0;
  runtime::Arena::Scope scope(context.arena);
  std::span<std::byte> workspace;
  if (workspace_bytes > 0) {
    void* memory = context.arena.allocate_bytes(workspace_bytes, runtime::MemoryClass::kWorkspace, impl.name);
    workspace = {static_cast<std::byte*>(memory), static_cast<std::size_t>(workspace_bytes)};
  }
  if (!context.dry()) {
    impl.run(desc, args, {context.device, workspace, context.queue});
    if (context.queue != nullptr) context.queue->mark(op, impl.name);
    return;
  }
  // What was timed may turn out otherwise the next time.
  if (impl.prepare != nullptr && !context.deterministic)
    context.preparations.push_back([&impl, desc, args](const Launch& scratch) { impl.prepare(desc, args, scratch); });
}

template <typename Desc, typename Args>
void dispatch(Context& context, const ImplList<Desc, Args>& list, const Desc& desc, const Args& args, std::string_view op) {
  const auto& impl = choose(list, desc, context.device, op);
  ++context.calls.ops[{op, impl.name}];
  launch(context, impl, desc, args, op);
}

const Impl<GemmDesc, GemmArgs>& planned_impl(const Context& context, const SitePlanRow& row, const GemmDesc& desc,
                                             Refusal& refusal) {
  for (const auto& impl : context.backend.gemm) {
    if (impl.name != row.engine) continue;
    refusal = impl.supports(desc, context.device);
    if (!refusal) return impl;
    break;
  }
  return choose(context.backend.gemm, desc, context.device, "gemm");
}

}  // namespace

void CallCounts::add(const CallCounts& other) {
  gemms.add(other.gemms);
  for (const auto& [key, calls] : other.ops) ops[key] += calls;
  gemm_flops += other.gemm_flops;
}

void gemm(Context& context, SiteId site, Pass pass, const GemmArgs& args) {
  assert(context.site_plan != nullptr && site >= 0 && static_cast<std::size_t>(site) < context.site_plan->sites.size());
  const GemmSite& info = context.site_plan->sites[static_cast<std::size_t>(site)];
  const SitePlanRow& row = context.site_plan->rows[static_cast<std::size_t>(site)][static_cast<std::size_t>(pass)];
  GemmDesc desc = row.desc;
  (pass == Pass::kWgrad ? desc.k : desc.m) = args.a.rows;
  if (args.overwrite) desc.accumulate = false;
  const auto a_shape = desc.a_transposed ? std::pair{desc.k, desc.m} : std::pair{desc.m, desc.k};
  const auto b_shape = desc.b_transposed ? std::pair{desc.n, desc.k} : std::pair{desc.k, desc.n};
  expect(info.name, "a", args.a, a_shape.first, a_shape.second, desc.a_dtype);
  expect(info.name, "b", args.b, b_shape.first, b_shape.second, desc.b_dtype);
  expect(info.name, "c", args.c, desc.m, desc.n, desc.c_dtype);
  if (desc.has_bias) expect(info.name, "bias", args.bias, 1, desc.n, desc.b_dtype);
  if (desc.has_residual) expect(info.name, "residual", args.residual, desc.m, desc.n, desc.c_dtype);

  Refusal refusal;
  const auto& impl = planned_impl(context, row, desc, refusal);
  if (impl.name != row.engine) {
    if (context.fallback_is_error)
      fail_gate("[{}] {} refused {} ({}) and evidence.on_fallback = \"error\"", info.name, row.engine, desc.to_string(),
                refusal.reason);
    context.calls.gemms.count_fallback(module_name(info.module), refusal.reason);
  }
  context.calls.gemms.count_call(module_name(info.module), impl.name);
  context.calls.gemm_flops += 2.0 * static_cast<double>(desc.m) * static_cast<double>(desc.n) * static_cast<double>(desc.k);
  launch(context, impl, desc, args, "gemm");
}

void rms_norm_forward(Context& context, const RmsNormDesc& desc, const RmsNormForwardArgs& args) {
  constexpr std::string_view kOp = "rms_norm_forward";
  expect(kOp, "x", args.x, desc.rows, desc.num_groups * desc.cols, desc.dtype);
  expect(kOp, "w", args.w, 1, desc.cols, desc.dtype);
  expect(kOp, "y", args.y, desc.rows, desc.num_groups * desc.cols, desc.dtype);
  expect(kOp, "rstd", args.rstd, desc.rows, desc.num_groups, DType::kF32);
  dispatch(context, context.backend.rms_norm_forward, desc, args, kOp);
}

void rms_norm_backward(Context& context, const RmsNormDesc& desc, const RmsNormBackwardArgs& args) {
  constexpr std::string_view kOp = "rms_norm_backward";
  const std::int64_t width = desc.num_groups * desc.cols;
  expect(kOp, "grad_y", args.grad_y, desc.rows, width, desc.dtype);
  expect(kOp, "x", args.x, desc.rows, width, desc.dtype);
  expect(kOp, "w", args.w, 1, desc.cols, desc.dtype);
  expect(kOp, "rstd", args.rstd, desc.rows, desc.num_groups, DType::kF32);
  expect(kOp, "grad_x", args.grad_x, desc.rows, width, desc.dtype);
  expect(kOp, "grad_w", args.grad_w, 1, desc.cols, DType::kF32);
  dispatch(context, context.backend.rms_norm_backward, desc, args, kOp);
}

void rope(Context& context, const RopeDesc& desc, const RopeArgs& args) {
  constexpr std::string_view kOp = "rope";
  expect(kOp, "x", args.x, desc.rows, desc.num_heads * desc.head_dim, desc.dtype);
  expect(kOp, "positions", args.positions, 1, desc.rows, DType::kI32);
  expect(kOp, "cos", args.cos, args.cos.rows, desc.rotary_dim / 2, DType::kF32);
  expect(kOp, "sin", args.sin, args.cos.rows, desc.rotary_dim / 2, DType::kF32);
  dispatch(context, context.backend.rope, desc, args, kOp);
}

void attention_forward(Context& context, const AttentionDesc& desc, const AttentionForwardArgs& args) {
  constexpr std::string_view kOp = "attention_forward";
  const std::int64_t q_cols = desc.num_heads * desc.head_dim;
  const std::int64_t kv_cols = desc.num_kv_heads * desc.head_dim;
  expect(kOp, "q", args.q, desc.q_rows, q_cols, desc.dtype);
  expect(kOp, "k", args.k, desc.kv_rows, kv_cols, desc.dtype);
  expect(kOp, "v", args.v, desc.kv_rows, kv_cols, desc.dtype);
  expect(kOp, "o", args.o, desc.q_rows, q_cols, desc.dtype);
  expect(kOp, "segments", args.segments, desc.max_segments, 4, DType::kI32);
  if (!args.lse.empty()) expect(kOp, "lse", args.lse, desc.q_rows, desc.num_heads, DType::kF32);
  dispatch(context, context.backend.attention_forward, desc, args, kOp);
}

void attention_backward(Context& context, const AttentionDesc& desc, const AttentionBackwardArgs& args) {
  constexpr std::string_view kOp = "attention_backward";
  const std::int64_t q_cols = desc.num_heads * desc.head_dim;
  const std::int64_t kv_cols = desc.num_kv_heads * desc.head_dim;
  for (const auto& [name, view] : {std::pair{"grad_o", args.grad_o}, {"q", args.q}, {"o", args.o}, {"grad_q", args.grad_q}})
    expect(kOp, name, view, desc.q_rows, q_cols, desc.dtype);
  for (const auto& [name, view] : {std::pair{"k", args.k}, {"v", args.v}, {"grad_k", args.grad_k}, {"grad_v", args.grad_v}})
    expect(kOp, name, view, desc.kv_rows, kv_cols, desc.dtype);
  expect(kOp, "lse", args.lse, desc.q_rows, desc.num_heads, DType::kF32);
  expect(kOp, "segments", args.segments, desc.max_segments, 4, DType::kI32);
  AttentionDesc asked = desc;
  asked.deterministic |= context.deterministic;
  dispatch(context, context.backend.attention_backward, asked, args, kOp);
}

void swiglu_forward(Context& context, const SwigluDesc& desc, const SwigluForwardArgs& args) {
  expect("swiglu_forward", "gate_up", args.gate_up, desc.rows, 2 * desc.cols, desc.dtype);
  expect("swiglu_forward", "y", args.y, desc.rows, desc.cols, desc.dtype);
  dispatch(context, context.backend.swiglu_forward, desc, args, "swiglu_forward");
}

void swiglu_backward(Context& context, const SwigluDesc& desc, const SwigluBackwardArgs& args) {
  expect("swiglu_backward", "grad_y", args.grad_y, desc.rows, desc.cols, desc.dtype);
  expect("swiglu_backward", "gate_up", args.gate_up, desc.rows, 2 * desc.cols, desc.dtype);
  expect("swiglu_backward", "grad_gate_up", args.grad_gate_up, desc.rows, 2 * desc.cols, desc.dtype);
  dispatch(context, context.backend.swiglu_backward, desc, args, "swiglu_backward");
}

void embedding_forward(Context& context, const EmbeddingDesc& desc, const EmbeddingForwardArgs& args) {
  expect("embedding_forward", "ids", args.ids, 1, desc.rows, DType::kI32);
  expect("embedding_forward", "table", args.table, desc.vocab_size, desc.cols, desc.dtype);
  expect("embedding_forward", "y", args.y, desc.rows, desc.cols, desc.dtype);
  dispatch(context, context.backend.embedding_forward, desc, args, "embedding_forward");
}

void embedding_backward(Context& context, const EmbeddingDesc& desc, const EmbeddingBackwardArgs& args) {
  expect("embedding_backward", "ids", args.ids, 1, desc.rows, DType::kI32);
  expect("embedding_backward", "grad_y", args.grad_y, desc.rows, desc.cols, desc.dtype);
  expect("embedding_backward", "grad_table", args.grad_table, desc.vocab_size, desc.cols, DType::kF32);
  dispatch(context, context.backend.embedding_backward, desc, args, "embedding_backward");
}

void cross_entropy(Context& context, const CrossEntropyDesc& desc, const CrossEntropyArgs& args) {
  expect("cross_entropy", "logits", args.logits, desc.rows, desc.vocab_size, desc.dtype);
  expect("cross_entropy", "labels", args.labels, 1, desc.rows, DType::kI32);
  expect("cross_entropy", "nll", args.nll, 1, desc.rows, DType::kF32);
  dispatch(context, context.backend.cross_entropy, desc, args, "cross_entropy");
}

void add(Context& context, const AddDesc& desc, const AddArgs& args) {
  for (const auto& [name, view] : {std::pair{"a", args.a}, {"b", args.b}, {"y", args.y}})
    expect("add", name, view, desc.rows, desc.cols, desc.dtype);
  dispatch(context, context.backend.add, desc, args, "add");
}

void convert(Context& context, const ConvertDesc& desc, const ConvertArgs& args) {
  expect("convert", "x", args.x, desc.rows, desc.cols, desc.from);
  expect("convert", "y", args.y, desc.rows, desc.cols, desc.to);
  dispatch(context, context.backend.convert, desc, args, "convert");
}

void fill(Context& context, const FillDesc& desc, const FillArgs& args) {
  expect("fill", "y", args.y, 1, desc.size, DType::kF32);
  dispatch(context, context.backend.fill, desc, args, "fill");
}

namespace {

void expect_quantized(std::string_view op, const QuantizedView& view, const formats::QuantFormat& format,
                      formats::ScaleLayout layout, std::int64_t rows, std::int64_t k) {
  const ScalesShape scales = quantized_scales_shape(format, layout, rows, k);
  expect(op, "codes", view.codes, rows, formats::code_row_bytes(format, k), DType::kU8);
  expect(op, "scales", view.scales, scales.rows, scales.cols, scales.dtype);
}

// Results and pointers, all but x.
void expect_quantize(std::string_view op, const QuantizeDesc& desc, const QuantizeArgs& args) {
  if (desc.by_rows.grid != formats::ScaleGrid::kNone)
    expect_quantized(op, args.by_rows, desc.by_rows, desc.layout, desc.rows, desc.cols);
  if (desc.by_cols.grid != formats::ScaleGrid::kNone)
    expect_quantized(op, args.by_cols, desc.by_cols, desc.layout, desc.cols, desc.rows);
  if (desc.has_amax && args.amax == nullptr) fail_runtime("[{}] amax: expected an address, got none", op);
  if (desc.has_prescale && args.prescale == nullptr) fail_runtime("[{}] prescale: expected an address, got none", op);
}

// What a pack's producer reads, and the matrix it makes where that is kept.
void expect_producer(std::string_view op, const PackDesc& desc, const PackArgs& args) {
  const QuantizeDesc& q = desc.quantize;
  if (args.producer.index() != static_cast<std::size_t>(desc.producer))
    fail_runtime("[{}] arguments are not those of {}", op, producer_name(desc.producer));
  const auto expect_matrix = [&](const TensorView& matrix) {
    if (desc.keeps_matrix) expect(op, "matrix", matrix, q.rows, q.cols, q.dtype);
  };
  if (const auto* norm = std::get_if<RmsNormForwardArgs>(&args.producer)) {
    expect(op, "x", norm->x, q.rows, q.cols, q.dtype);
    expect(op, "w", norm->w, 1, q.cols, q.dtype);
    expect(op, "rstd", norm->rstd, q.rows, 1, DType::kF32);
    expect_matrix(norm->y);
  } else if (const auto* grad = std::get_if<RmsNormBackwardArgs>(&args.producer)) {
    expect(op, "grad_y", grad->grad_y, q.rows, q.cols, q.dtype);
    expect(op, "x", grad->x, q.rows, q.cols, q.dtype);
    expect(op, "w", grad->w, 1, q.cols, q.dtype);
    expect(op, "rstd", grad->rstd, q.rows, 1, DType::kF32);
    expect(op, "grad_w", grad->grad_w, 1, q.cols, DType::kF32);
    expect_matrix(grad->grad_x);
  } else if (const auto* swiglu = std::get_if<SwigluForwardArgs>(&args.producer)) {
    expect(op, "gate_up", swiglu->gate_up, q.rows, 2 * q.cols, q.dtype);
    expect_matrix(swiglu->y);
  } else if (const auto* swiglu_grad = std::get_if<SwigluBackwardArgs>(&args.producer)) {
    expect(op, "grad_y", swiglu_grad->grad_y, q.rows, q.cols / 2, q.dtype);
    expect(op, "gate_up", swiglu_grad->gate_up, q.rows, q.cols, q.dtype);
    expect_matrix(swiglu_grad->grad_gate_up);
    if (desc.keeps_matrix && swiglu_grad->grad_gate_up.data == swiglu_grad->gate_up.data)
      fail_runtime("[{}] grad_gate_up is gate_up, which other tiles still read", op);
  }
}

}  // namespace

void quantize(Context& context, const QuantizeDesc& desc, const QuantizeArgs& args) {
  constexpr std::string_view kOp = "quantize";
  expect(kOp, "x", args.x, desc.rows, desc.cols, desc.dtype);
  expect_quantize(kOp, desc, args);
  if (desc.error_feedback) expect(kOp, "carry", args.carry, desc.rows, desc.cols, DType::kF32);
  dispatch(context, context.backend.quantize, desc, args, kOp);
}

void pack(Context& context, const PackDesc& desc, const PackArgs& args) {
  constexpr std::string_view kOp = "pack";
  expect_producer(kOp, desc, args);
  expect_quantize(kOp, desc.quantize, args.quantize);
  dispatch(context, context.backend.pack, desc, args, kOp);
}

void dequantize(Context& context, const DequantizeDesc& desc, const DequantizeArgs& args) {
  constexpr std::string_view kOp = "dequantize";
  expect_quantized(kOp, args.x, desc.format, desc.layout, desc.rows, desc.cols);
  expect(kOp, "y", args.y, desc.rows, desc.cols, desc.dtype);
  dispatch(context, context.backend.dequantize, desc, args, kOp);
}

void bias_grad(Context& context, const BiasGradDesc& desc, const BiasGradArgs& args) {
  expect("bias_grad", "grad_y", args.grad_y, desc.rows, desc.cols, desc.dtype);
  expect("bias_grad", "grad_bias", args.grad_bias, 1, desc.cols, DType::kF32);
  dispatch(context, context.backend.bias_grad, desc, args, "bias_grad");
}

void sum_squares(Context& context, const SumSquaresDesc& desc, const SumSquaresArgs& args) {
  expect("sum_squares", "ranges", args.ranges, desc.num_tensors, 4, DType::kI64);
  expect("sum_squares", "x", args.x, 1, desc.size, DType::kF32);
  expect("sum_squares", "result", args.result, 1, desc.num_tensors, DType::kF64);
  dispatch(context, context.backend.sum_squares, desc, args, "sum_squares");
}

void optimizer_step(Context& context, const OptimizerDesc& desc, const OptimizerArgs& args) {
  constexpr std::string_view kOp = "optimizer_step";
  expect(kOp, "scalars", args.scalars, 1, 8, DType::kF32);
  expect(kOp, "ranges", args.ranges, desc.num_tensors, 4, DType::kI64);
  expect(kOp, "grad", args.grad, 1, desc.size, DType::kF32);
  expect(kOp, "master", args.master, 1, desc.size, DType::kF32);
  expect(kOp, "m", args.m, 1, desc.size, desc.state_dtype);
  if (desc.kind == OptimizerKind::kAdamW) expect(kOp, "v", args.v, 1, desc.size, desc.state_dtype);
  expect(kOp, "weight", args.weight, 1, desc.size, desc.weight_dtype);
  dispatch(context, context.backend.optimizer, desc, args, kOp);
}

}  // namespace ida::ops
