#include <fmt/format.h>

#include "model/param_spec.h"

namespace ida::model {
namespace {

constexpr std::int64_t kGroupAlignElems = 64;

class TableBuilder {
 public:
  explicit TableBuilder(double init_std) : init_std_(init_std) {}

  // Starts a group: what follows is packed without gaps until the next group.
  void begin_group() {
    table_.total_elems = (table_.total_elems + kGroupAlignElems - 1) / kGroupAlignElems * kGroupAlignElems;
  }
  void matrix(std::string name, std::int64_t rows, std::int64_t cols) {
    append({.name = std::move(name), .rows = rows, .cols = cols, .init = InitKind::kNormal, .init_std = init_std_});
  }
  void vector(std::string name, std::int64_t size, InitKind init) {
    append({.name = std::move(name), .cols = size, .is_vector = true, .init = init, .init_std = 0.0});
  }
  ParamTable finish() {
    begin_group();
    return std::move(table_);
  }

 private:
  void append(ParamSpec spec) {
    spec.offset_elems = table_.total_elems;
    table_.total_elems += spec.numel();
    table_.num_parameters += spec.numel();
    table_.params.push_back(std::move(spec));
  }

  double init_std_;
  ParamTable table_;
};

struct Projection {
  std::string_view name;
  std::int64_t out_features;
};

// The weights of projections that share an input, then their biases: two groups, each one matrix or vector to a GEMM.
void add_linear(TableBuilder& builder, const std::string& prefix, std::initializer_list<Projection> projections,
                std::int64_t in_features, bool has_bias) {
  builder.begin_group();
  for (const Projection& p : projections)
    builder.matrix(fmt::format("{}{}.weight", prefix, p.name), p.out_features, in_features);
  if (!has_bias) return;
  builder.begin_group();
  for (const Projection& p : projections)
    builder.vector(fmt::format("{}{}.bias", prefix, p.name), p.out_features, InitKind::kZeros);
}

void add_norm(TableBuilder& builder, std::string name, std::int64_t size) {
  builder.begin_group();
  builder.vector(std::move(name), size, InitKind::kOnes);
}

void add_layer(TableBuilder& builder, const ModelConfig& c, std::int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  add_norm(builder, prefix + "input_layernorm.weight", c.hidden_size);
  add_linear(builder, prefix + "self_attn.", {{"q_proj", c.q_cols()}, {"k_proj", c.kv_cols()}, {"v_proj", c.kv_cols()}},
             c.hidden_size, c.qkv_bias);
  if (c.qk_norm) {
    add_norm(builder, prefix + "self_attn.q_norm.weight", c.head_dim);
    add_norm(builder, prefix + "self_attn.k_norm.weight", c.head_dim);
  }
  add_linear(builder, prefix + "self_attn.", {{"o_proj", c.hidden_size}}, c.q_cols(), c.o_bias);
  add_norm(builder, prefix + "post_attention_layernorm.weight", c.hidden_size);
  add_linear(builder, prefix + "mlp.", {{"gate_proj", c.intermediate_size}, {"up_proj", c.intermediate_size}},
             c.hidden_size, c.mlp_bias);
  add_linear(builder, prefix + "mlp.", {{"down_proj", c.hidden_size}}, c.intermediate_size, c.mlp_bias);
}

}  // namespace

std::int64_t ParamTable::find(const std::string& name) const {
  for (std::size_t i = 0; i < params.size(); ++i)
    if (params[i].name == name) return static_cast<std::int64_t>(i);
  return -1;
}

ParamTable build_param_table(const ModelConfig& config) {
  TableBuilder builder(config.initializer_range);
  builder.begin_group();
  builder.matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) add_layer(builder, config, layer);
  add_norm(builder, "model.norm.weight", config.hidden_size);
  if (!config.tie_word_embeddings) {
    builder.begin_group();
    builder.matrix("lm_head.weight", config.vocab_size, config.hidden_size);
  }
  return builder.finish();
}

}  // namespace ida::model
