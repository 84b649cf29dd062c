#include "model/decoder.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "model/decoder_pass.h"

namespace ida::model {

Decoder::Decoder(const ModelConfig& config, const ParamTable& table, DType compute)
    : config_(config), table_(table), compute_(compute) {
  const auto linear_params = [&](const std::string& prefix, std::string_view first, std::int64_t in, std::int64_t out) {
    return LinearParams{.weight = table.find(fmt::format("{}{}.weight", prefix, first)),
                        .bias = table.find(fmt::format("{}{}.bias", prefix, first)),
                        .in_features = in,
                        .out_features = out};
  };
  embed_ = table.find("model.embed_tokens.weight");
  final_norm_ = table.find("model.norm.weight");
  head_ = {.weight = config.tie_word_embeddings ? embed_ : table.find("lm_head.weight"),
           .in_features = config.hidden_size,
           .out_features = config.vocab_size};
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const std::string attn = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    layers_.push_back({.attn_norm = table.find(prefix + "input_layernorm.weight"),
                       .q_norm = table.find(attn + "q_norm.weight"),
                       .k_norm = table.find(attn + "k_norm.weight"),
                       .mlp_norm = table.find(prefix + "post_attention_layernorm.weight"),
                       .qkv = linear_params(attn, "q_proj", config.hidden_size, config.qkv_cols()),
                       .o = linear_params(attn, "o_proj", config.q_cols(), config.hidden_size),
                       .gate_up = linear_params(mlp, "gate_proj", config.hidden_size, 2 * config.intermediate_size),
                       .down = linear_params(mlp, "down_proj", config.intermediate_size, config.hidden_size)});
  }
}

TensorView Decoder::param(const TensorView& flat, std::int64_t index, std::int64_t rows, std::int64_t cols) const {
  assert(index >= 0);
  const ParamSpec& spec = table_.params[static_cast<std::size_t>(index)];
  TensorView view = flat.col_slice(spec.offset_elems, rows * cols);
  view.rows = rows;
  view.cols = cols;
  view.row_stride = cols;
  return view;
}

void Decoder::embed(const Pass& pass, const TensorView& x) const {
  ops::embedding_forward(
      pass.context, {.rows = pass.rows(), .cols = config_.hidden_size, .vocab_size = config_.vocab_size, .dtype = compute_},
      {.ids = pass.batch.tokens,
       .table = param(pass.buffers.weights, embed_, config_.vocab_size, config_.hidden_size),
       .y = x});
}

void Decoder::linear(const Pass& pass, ops::SiteId site, const LinearParams& p, const TensorView& x, const TensorView& y,
                     const TensorView& residual) const {
  ops::GemmArgs args{.a = x,
                     .b = param(pass.buffers.weights, p.weight, p.out_features, p.in_features),
                     .c = y,
                     .bias = {},
                     .residual = residual};
  if (p.bias >= 0) args.bias = param(pass.buffers.weights, p.bias, 1, p.out_features);
  ops::gemm(pass.context, site, ops::Pass::kFprop, args);
}

void Decoder::attention_half(const Pass& pass, std::int64_t layer, const LayerActivations& a) const {
  const LayerParams& p = layers_[static_cast<std::size_t>(layer)];
  ops::Context& context = pass.context;
  const std::int64_t rows = pass.rows();
  const auto eps = static_cast<float>(config_.rms_norm_eps);

  ops::rms_norm_forward(context, {.rows = rows, .cols = config_.hidden_size, .eps = eps, .dtype = compute_},
                        {.x = a.x_in,
                         .w = param(pass.buffers.weights, p.attn_norm, 1, config_.hidden_size),
                         .y = a.attn_norm,
                         .rstd = a.attn_rstd});
  linear(pass, layer_site(layer, LayerSite::kQkv), p.qkv, a.attn_norm, a.qkv);

  const TensorView rotated = config_.qk_norm ? a.qk : a.qkv;
  const QkvViews v = qkv_views(config_, rotated, a.qkv);
  if (config_.qk_norm) {
    const QkvViews raw = qkv_views(config_, a.qkv, a.qkv);
    ops::RmsNormDesc desc{
        .rows = rows, .cols = config_.head_dim, .num_groups = config_.num_attention_heads, .eps = eps, .dtype = compute_};
    ops::rms_norm_forward(
        context, desc,
        {.x = raw.q, .w = param(pass.buffers.weights, p.q_norm, 1, config_.head_dim), .y = v.q, .rstd = a.q_rstd});
    desc.num_groups = config_.num_key_value_heads;
    ops::rms_norm_forward(
        context, desc,
        {.x = raw.k, .w = param(pass.buffers.weights, p.k_norm, 1, config_.head_dim), .y = v.k, .rstd = a.k_rstd});
  }
  ops::rope(context, rope_desc(config_, compute_, rows, ops::RopeDirection::kForward),
            {.x = v.qk, .positions = pass.batch.positions, .cos = pass.buffers.rope_cos, .sin = pass.buffers.rope_sin});

  TensorView keys = v.k;
  TensorView values = v.v;
  if (pass.cache != nullptr) {
    store_keys_values(pass, layer, v.k, v.v);
    keys = pass.cache->keys[static_cast<std::size_t>(layer)];
    values = pass.cache->values[static_cast<std::size_t>(layer)];
  }
  ops::attention_forward(
      context, attention_desc(config_, layer, compute_, pass.batch, keys.rows),
      {.q = v.q, .k = keys, .v = values, .segments = pass.batch.segments, .o = a.attn_out, .lse = a.lse});
  linear(pass, layer_site(layer, LayerSite::kO), p.o, a.attn_out, a.x_mid, a.x_in);
}

void Decoder::store_keys_values(const Pass& pass, std::int64_t layer, const TensorView& k, const TensorView& v) const {
  const ops::ConvertDesc base{.cols = config_.kv_cols(), .from = compute_, .to = compute_};
  for (const ops::Segment& s : *pass.segments) {
    ops::ConvertDesc desc = base;
    desc.rows = s.q_len;
    const std::int64_t target = s.kv_begin + s.kv_len - s.q_len;
    const auto index = static_cast<std::size_t>(layer);
    ops::convert(pass.context, desc,
                 {.x = k.row_slice(s.q_begin, s.q_len), .y = pass.cache->keys[index].row_slice(target, s.q_len)});
    ops::convert(pass.context, desc,
                 {.x = v.row_slice(s.q_begin, s.q_len), .y = pass.cache->values[index].row_slice(target, s.q_len)});
  }
}

void Decoder::mlp_inner(const Pass& pass, std::int64_t layer, const LayerActivations& a) const {
  const LayerParams& p = layers_[static_cast<std::size_t>(layer)];
  ops::rms_norm_forward(pass.context,
                        {.rows = pass.rows(),
                         .cols = config_.hidden_size,
                         .eps = static_cast<float>(config_.rms_norm_eps),
                         .dtype = compute_},
                        {.x = a.x_mid,
                         .w = param(pass.buffers.weights, p.mlp_norm, 1, config_.hidden_size),
                         .y = a.mlp_norm,
                         .rstd = a.mlp_rstd});
  linear(pass, layer_site(layer, LayerSite::kGateUp), p.gate_up, a.mlp_norm, a.gate_up);
  ops::swiglu_forward(pass.context, {.rows = pass.rows(), .cols = config_.intermediate_size, .dtype = compute_},
                      {.gate_up = a.gate_up, .y = a.act});
}

void Decoder::mlp_output(const Pass& pass, std::int64_t layer, const LayerActivations& a, const TensorView& x_out) const {
  linear(pass, layer_site(layer, LayerSite::kDown), layers_[static_cast<std::size_t>(layer)].down, a.act, x_out, a.x_mid);
}

void Decoder::final_norm(const Pass& pass, const TensorView& x, const TensorView& normed, const TensorView& rstd) const {
  ops::rms_norm_forward(
      pass.context,
      {.rows = pass.rows(),
       .cols = config_.hidden_size,
       .eps = static_cast<float>(config_.rms_norm_eps),
       .dtype = compute_},
      {.x = x, .w = param(pass.buffers.weights, final_norm_, 1, config_.hidden_size), .y = normed, .rstd = rstd});
}

void Decoder::forward_hidden(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch,
                             const std::vector<ops::Segment>& segments, const KvCache* cache,
                             const TensorView& hidden) const {
  const Pass pass{.context = context, .buffers = buffers, .batch = batch, .cache = cache, .segments = &segments};
  runtime::Arena& arena = context.arena;
  runtime::Arena::Scope scope(arena);
  LayerActivations a;
  allocate_attention_part(arena, config_, compute_, pass.rows(), a);
  allocate_mlp_part(arena, config_, compute_, pass.rows(), a);
  a.lse = {};
  a.x_in = arena.allocate(compute_, pass.rows(), config_.hidden_size, runtime::MemoryClass::kActivations, "residual");
  embed(pass, a.x_in);
  for (std::int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    attention_half(pass, layer, a);
    mlp_inner(pass, layer, a);
    mlp_output(pass, layer, a, a.x_in);
  }
  final_norm(pass, a.x_in, hidden, a.attn_rstd);
}

void Decoder::logits(ops::Context& context, const ModelBuffers& buffers, const TensorView& hidden,
                     const TensorView& out) const {
  const BatchViews none;
  linear({.context = context, .buffers = buffers, .batch = none}, head_site(config_), head_, hidden, out);
}

void Decoder::evaluate(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch,
                       const TensorView& nll) const {
  runtime::Arena::Scope scope(context.arena);
  const TensorView hidden = context.arena.allocate(compute_, batch.tokens.cols, config_.hidden_size,
                                                   runtime::MemoryClass::kActivations, "hidden");
  forward_hidden(context, buffers, batch, {}, nullptr, hidden);
  head_loss({.context = context, .buffers = buffers, .batch = batch}, hidden, nll, false);
}

}  // namespace ida::model
