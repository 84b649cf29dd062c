// Buffers and problem descriptions of one block.
#include <cmath>

#include "model/decoder_pass.h"

namespace ida::model {
namespace {
constexpr auto kActivations = runtime::MemoryClass::kActivations;
}

void allocate_attention_part(runtime::Arena& arena, const ModelConfig& c, DType dtype, std::int64_t rows,
                             LayerActivations& a) {
  a.attn_rstd = arena.allocate(DType::kF32, rows, 1, kActivations, "attn_rstd");
  a.attn_norm = arena.allocate(dtype, rows, c.hidden_size, kActivations, "attn_norm");
  a.qkv = arena.allocate(dtype, rows, c.qkv_cols(), kActivations, "qkv");
  if (c.qk_norm) {
    a.qk = arena.allocate(dtype, rows, c.q_cols() + c.kv_cols(), kActivations, "qk");
    a.q_rstd = arena.allocate(DType::kF32, rows, c.num_attention_heads, kActivations, "q_rstd");
    a.k_rstd = arena.allocate(DType::kF32, rows, c.num_key_value_heads, kActivations, "k_rstd");
  }
  a.attn_out = arena.allocate(dtype, rows, c.q_cols(), kActivations, "attn_out");
  a.lse = arena.allocate(DType::kF32, rows, c.num_attention_heads, kActivations, "lse");
  a.x_mid = arena.allocate(dtype, rows, c.hidden_size, kActivations, "x_mid");
}

void allocate_mlp_part(runtime::Arena& arena, const ModelConfig& c, DType dtype, std::int64_t rows, LayerActivations& a) {
  a.mlp_rstd = arena.allocate(DType::kF32, rows, 1, kActivations, "mlp_rstd");
  a.mlp_norm = arena.allocate(dtype, rows, c.hidden_size, kActivations, "mlp_norm");
  a.gate_up = arena.allocate(dtype, rows, 2 * c.intermediate_size, kActivations, "gate_up");
  a.act = arena.allocate(dtype, rows, c.intermediate_size, kActivations, "act");
}

QkvViews qkv_views(const ModelConfig& c, const TensorView& rotated, const TensorView& qkv) {
  return {.q = rotated.col_slice(0, c.q_cols()),
          .k = rotated.col_slice(c.q_cols(), c.kv_cols()),
          .v = qkv.col_slice(c.q_cols() + c.kv_cols(), c.kv_cols()),
          .qk = rotated.col_slice(0, c.q_cols() + c.kv_cols())};
}

ops::AttentionDesc attention_desc(const ModelConfig& c, std::int64_t layer, DType dtype, const BatchViews& batch,
                                  std::int64_t kv_rows) {
  return {.q_rows = batch.tokens.cols,
          .kv_rows = kv_rows,
          .num_heads = c.num_attention_heads,
          .num_kv_heads = c.num_key_value_heads,
          .head_dim = c.head_dim,
          .window = c.layer_window[static_cast<std::size_t>(layer)],
          .max_segments = batch.segments.rows,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim))),
          .dtype = dtype,
          .uniform_document_len = batch.uniform_document_len};
}

ops::RopeDesc rope_desc(const ModelConfig& c, DType dtype, std::int64_t rows, ops::RopeDirection direction) {
  return {.rows = rows,
          .num_heads = c.num_attention_heads + c.num_key_value_heads,
          .head_dim = c.head_dim,
          .rotary_dim = c.head_dim,
          .direction = direction,
          .dtype = dtype};
}

}  // namespace ida::model
