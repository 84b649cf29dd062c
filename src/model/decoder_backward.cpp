// The decoder's training pass: forward with what backward needs, the chunked head and loss, and backward block by block.
// The gradient of the residual stream is one buffer dx [N, D] that each block turns from its output's into its input's.
#include <algorithm>
#include <cassert>

#include "model/decoder_pass.h"

namespace ida::model {
namespace {
constexpr auto kActivations = runtime::MemoryClass::kActivations;

// Activations of all blocks: own tensors where they are kept, shared ones where backward recomputes them.
std::vector<LayerActivations> allocate_layers(runtime::Arena& arena, const ModelConfig& config, DType dtype,
                                              std::int64_t rows, Recompute recompute) {
  LayerActivations shared;
  if (recompute == Recompute::kBlock) allocate_attention_part(arena, config, dtype, rows, shared);
  if (recompute != Recompute::kNone) allocate_mlp_part(arena, config, dtype, rows, shared);
  std::vector<LayerActivations> layers(static_cast<std::size_t>(config.num_hidden_layers), shared);
  for (LayerActivations& a : layers) {
    a.x_in = arena.allocate(dtype, rows, config.hidden_size, kActivations, "residual");
    if (recompute != Recompute::kBlock) allocate_attention_part(arena, config, dtype, rows, a);
    if (recompute == Recompute::kNone) allocate_mlp_part(arena, config, dtype, rows, a);
  }
  return layers;
}

}  // namespace

void Decoder::train_micro_batch(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch,
                                Recompute recompute, GradientSum sum, const TensorView& nll) const {
  const Pass pass{.context = context, .buffers = buffers, .batch = batch, .sum = sum};
  runtime::Arena& arena = context.arena;
  runtime::Arena::Scope scope(arena);
  const std::int64_t rows = pass.rows();
  const std::vector<LayerActivations> layers = allocate_layers(arena, config_, compute_, rows, recompute);
  const TensorView x_final = arena.allocate(compute_, rows, config_.hidden_size, kActivations, "residual");
  const TensorView hidden = arena.allocate(compute_, rows, config_.hidden_size, kActivations, "hidden");
  const TensorView final_rstd = arena.allocate(DType::kF32, rows, 1, kActivations, "final_rstd");
  const TensorView dx = arena.allocate(compute_, rows, config_.hidden_size, kActivations, "grad_residual");

  embed(pass, layers.front().x_in);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    attention_half(pass, layer, layers[i]);
    mlp_inner(pass, layer, layers[i]);
    mlp_output(pass, layer, layers[i], i + 1 < layers.size() ? layers[i + 1].x_in : x_final);
  }
  final_norm(pass, x_final, hidden, final_rstd);
  head_loss(pass, hidden, nll, true);  // hidden now holds its own gradient
  norm_backward(pass, final_norm_, hidden, x_final, final_rstd, dx, false);

  for (std::size_t i = layers.size(); i-- > 0;) {
    const auto layer = static_cast<std::int64_t>(i);
    if (recompute == Recompute::kBlock) attention_half(pass, layer, layers[i]);
    if (recompute != Recompute::kNone) mlp_inner(pass, layer, layers[i]);
    mlp_backward(pass, layer, layers[i], dx);
    attention_backward(pass, layer, layers[i], dx);
  }
  ops::embedding_backward(context,
                          {.rows = rows, .cols = config_.hidden_size, .vocab_size = config_.vocab_size, .dtype = compute_},
                          {.ids = batch.tokens,
                           .grad_y = dx,
                           .grad_table = param(buffers.grads, embed_, config_.vocab_size, config_.hidden_size),
                           .scale = pass.weight_scale()});
}

// Logits exist for one chunk of rows at a time. With a gradient, the chunk's logits become dlogits in place, the head's
// weight gradient is accumulated, and the chunk's rows of `hidden` become d loss / d hidden.
void Decoder::head_loss(const Pass& pass, const TensorView& hidden, const TensorView& nll, bool with_gradient) const {
  runtime::Arena& arena = pass.context.arena;
  runtime::Arena::Scope scope(arena);
  const std::int64_t chunk_rows = std::min(head_chunk_rows(config_, pass.context.device), hidden.rows);
  const TensorView logits_buffer = arena.allocate(compute_, chunk_rows, config_.vocab_size, kActivations, "logits_chunk");
  const TensorView weight = param(pass.buffers.weights, head_.weight, head_.out_features, head_.in_features);
  TensorView grad_weight;
  if (with_gradient)
    grad_weight = config_.tie_word_embeddings
                      ? pass.buffers.head_grad
                      : param(pass.buffers.grads, head_.weight, head_.out_features, head_.in_features);
  const ops::SiteId site = head_site(config_);
  for (std::int64_t begin = 0; begin < hidden.rows; begin += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, hidden.rows - begin);
    const TensorView x = hidden.row_slice(begin, rows);
    const TensorView chunk = logits_buffer.row_slice(0, rows);
    linear(pass, site, head_, x, chunk);
    ops::cross_entropy(pass.context,
                       {.rows = rows, .vocab_size = config_.vocab_size, .with_gradient = with_gradient, .dtype = compute_},
                       {.logits = chunk,
                        .labels = pass.batch.labels.col_slice(begin, rows),
                        .nll = nll.col_slice(begin, rows),
                        .grad_scale = pass.activation_scale()});
    if (!with_gradient) continue;
    weight_gradient(pass, site, chunk, x, grad_weight, begin == 0 && pass.sum == GradientSum::kStart);
    ops::gemm(pass.context, site, ops::Pass::kDgrad, {.a = chunk, .b = weight, .c = x, .bias = {}});
  }
}

void Decoder::weight_gradient(const Pass& pass, ops::SiteId site, const TensorView& dy, const TensorView& x,
                              const TensorView& grad, bool overwrite) const {
  ops::gemm(pass.context, site, ops::Pass::kWgrad,
            {.a = dy, .b = x, .c = grad, .bias = {}, .alpha = pass.weight_scale(), .overwrite = overwrite});
}

std::vector<ElemRange> Decoder::cleared_gradients() const {
  std::vector<bool> written(table_.params.size());
  const auto mark = [&](const LinearParams& p) {
    // A fused group's weights follow each other in the table.
    std::int64_t rows = 0;
    for (auto i = static_cast<std::size_t>(p.weight); rows < p.out_features; rows += table_.params[i++].rows) {
      assert(table_.params[i].is_matrix());
      written[i] = true;
    }
  };
  for (const LayerParams& layer : layers_)
    for (const LinearParams* p : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) mark(*p);
  if (!config_.tie_word_embeddings) mark(head_);
  std::vector<ElemRange> ranges;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i]) continue;
    const ParamSpec& p = table_.params[i];
    const bool continues = i > 0 && !written[i - 1];
    if (!continues) ranges.push_back({.begin = p.offset_elems});
    ranges.back().size = p.offset_elems + p.numel() - ranges.back().begin;
  }
  return ranges;
}

void Decoder::linear_backward(const Pass& pass, ops::SiteId site, const LinearParams& p, const TensorView& x,
                              const TensorView& dy, const TensorView& dx) const {
  weight_gradient(pass, site, dy, x, param(pass.buffers.grads, p.weight, p.out_features, p.in_features),
                  pass.sum == GradientSum::kStart);
  if (p.bias >= 0)
    ops::bias_grad(
        pass.context, {.rows = dy.rows, .cols = p.out_features, .dtype = compute_},
        {.grad_y = dy, .grad_bias = param(pass.buffers.grads, p.bias, 1, p.out_features), .scale = pass.weight_scale()});
  ops::gemm(pass.context, site, ops::Pass::kDgrad,
            {.a = dy, .b = param(pass.buffers.weights, p.weight, p.out_features, p.in_features), .c = dx, .bias = {}});
}

void Decoder::norm_backward(const Pass& pass, std::int64_t param_index, const TensorView& dy, const TensorView& x,
                            const TensorView& rstd, const TensorView& dx, bool add_to_dx) const {
  const std::int64_t cols = config_.hidden_size;
  ops::rms_norm_backward(pass.context,
                         {.rows = x.rows, .cols = cols, .eps = static_cast<float>(config_.rms_norm_eps), .dtype = compute_},
                         {.grad_y = dy,
                          .x = x,
                          .w = param(pass.buffers.weights, param_index, 1, cols),
                          .rstd = rstd,
                          .grad_x = dx,
                          .grad_w = param(pass.buffers.grads, param_index, 1, cols),
                          .grad_w_scale = pass.weight_scale(),
                          .add_to_grad_x = add_to_dx});
}

void Decoder::mlp_backward(const Pass& pass, std::int64_t layer, const LayerActivations& a, const TensorView& dx) const {
  const LayerParams& p = layers_[static_cast<std::size_t>(layer)];
  runtime::Arena& arena = pass.context.arena;
  runtime::Arena::Scope scope(arena);
  const TensorView d_act = arena.allocate(compute_, pass.rows(), config_.intermediate_size, kActivations, "grad_act");
  const TensorView d_norm = arena.allocate(compute_, pass.rows(), config_.hidden_size, kActivations, "grad_norm");
  linear_backward(pass, layer_site(layer, LayerSite::kDown), p.down, a.act, dx, d_act);
  ops::swiglu_backward(pass.context, {.rows = pass.rows(), .cols = config_.intermediate_size, .dtype = compute_},
                       {.grad_y = d_act, .gate_up = a.gate_up, .grad_gate_up = a.gate_up});
  linear_backward(pass, layer_site(layer, LayerSite::kGateUp), p.gate_up, a.mlp_norm, a.gate_up, d_norm);
  norm_backward(pass, p.mlp_norm, d_norm, a.x_mid, a.mlp_rstd, dx, true);
}

void Decoder::attention_backward(const Pass& pass, std::int64_t layer, const LayerActivations& a,
                                 const TensorView& dx) const {
  const LayerParams& p = layers_[static_cast<std::size_t>(layer)];
  ops::Context& context = pass.context;
  runtime::Arena& arena = context.arena;
  runtime::Arena::Scope scope(arena);
  const std::int64_t rows = pass.rows();
  const TensorView d_attn = arena.allocate(compute_, rows, config_.q_cols(), kActivations, "grad_attn_out");
  const TensorView d_qkv = arena.allocate(compute_, rows, config_.qkv_cols(), kActivations, "grad_qkv");
  const TensorView d_norm = arena.allocate(compute_, rows, config_.hidden_size, kActivations, "grad_norm");

  linear_backward(pass, layer_site(layer, LayerSite::kO), p.o, a.attn_out, dx, d_attn);
  const QkvViews v = qkv_views(config_, config_.qk_norm ? a.qk : a.qkv, a.qkv);
  const QkvViews d = qkv_views(config_, d_qkv, d_qkv);
  ops::attention_backward(context, attention_desc(config_, layer, compute_, pass.batch, rows),
                          {.grad_o = d_attn,
                           .q = v.q,
                           .k = v.k,
                           .v = v.v,
                           .o = a.attn_out,
                           .lse = a.lse,
                           .segments = pass.batch.segments,
                           .grad_q = d.q,
                           .grad_k = d.k,
                           .grad_v = d.v});
  ops::rope(context, rope_desc(config_, compute_, rows, ops::RopeDirection::kInverse),
            {.x = d.qk, .positions = pass.batch.positions, .cos = pass.buffers.rope_cos, .sin = pass.buffers.rope_sin});
  if (config_.qk_norm) {
    const QkvViews raw = qkv_views(config_, a.qkv, a.qkv);
    const auto backward = [&](std::int64_t param_index, std::int64_t num_heads, const TensorView& grad, const TensorView& x,
                              const TensorView& rstd) {
      ops::rms_norm_backward(context,
                             {.rows = rows,
                              .cols = config_.head_dim,
                              .num_groups = num_heads,
                              .eps = static_cast<float>(config_.rms_norm_eps),
                              .dtype = compute_},
                             {.grad_y = grad,
                              .x = x,
                              .w = param(pass.buffers.weights, param_index, 1, config_.head_dim),
                              .rstd = rstd,
                              .grad_x = grad,
                              .grad_w = param(pass.buffers.grads, param_index, 1, config_.head_dim),
                              .grad_w_scale = pass.weight_scale()});
    };
    backward(p.q_norm, config_.num_attention_heads, d.q, raw.q, a.q_rstd);
    backward(p.k_norm, config_.num_key_value_heads, d.k, raw.k, a.k_rstd);
  }
  linear_backward(pass, layer_site(layer, LayerSite::kQkv), p.qkv, a.attn_norm, d_qkv, d_norm);
  norm_backward(pass, p.attn_norm, d_norm, a.x_in, a.attn_rstd, dx, true);
}

void Decoder::finish_gradients(ops::Context& context, const ModelBuffers& buffers) const {
  if (!config_.tie_word_embeddings) return;
  ops::convert(
      context,
      {.rows = config_.vocab_size, .cols = config_.hidden_size, .from = DType::kF32, .to = DType::kF32, .accumulate = true},
      {.x = buffers.head_grad, .y = param(buffers.grads, embed_, config_.vocab_size, config_.hidden_size)});
}

}  // namespace ida::model
