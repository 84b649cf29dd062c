// Every setting of model and optimizer reaches the computation: change it, and the result changes.
#include <functional>

#include "support/tiny_model.h"

namespace ida::testing {
namespace {

struct ModelChange {
  const char* name;
  std::function<void(model::ModelConfig&)> apply;
};

// The plain model with the switches that the changed key needs.
model::ModelConfig base_for(const std::string& name) {
  model::ModelConfig c = tiny_config();
  if (name.starts_with("rope_llama3_")) {
    c.rope = busy_config().rope;
    c.rope.theta = 500.0;  // wavelengths 6, 30, 140, 660 around the bounds 8 and 32: one kept, one blended, two divided
  }
  return c;
}

const std::vector<ModelChange>& model_changes() {
  using C = model::ModelConfig;
  static const std::vector<ModelChange> changes = {
      {"vocab_size", [](C& c) { c.vocab_size = 64; }},
      {"hidden_size", [](C& c) { c.hidden_size = 56; }},
      {"intermediate_size", [](C& c) { c.intermediate_size = 96; }},
      {"num_hidden_layers",
       [](C& c) {
         c.num_hidden_layers = 3, c.layer_window = {0, 0, 0};
       }},
      {"num_attention_heads", [](C& c) { c.num_attention_heads = 4; }},
      {"num_key_value_heads", [](C& c) { c.num_key_value_heads = 3; }},
      {"head_dim", [](C& c) { c.head_dim = 12; }},
      {"rms_norm_eps", [](C& c) { c.rms_norm_eps = 1e-3; }},
      {"tie_word_embeddings", [](C& c) { c.tie_word_embeddings = true; }},
      {"qkv_bias", [](C& c) { c.qkv_bias = true; }},
      {"o_bias", [](C& c) { c.o_bias = true; }},
      {"mlp_bias", [](C& c) { c.mlp_bias = true; }},
      {"qk_norm", [](C& c) { c.qk_norm = true; }},
      {"layer_window",
       [](C& c) {
         c.layer_window = {0, 3};
       }},
      {"rope_theta", [](C& c) { c.rope.theta = 500.0; }},
      {"rope_type", [](C& c) { c.rope = busy_config().rope, c.rope.theta = 10000.0; }},
      {"rope_llama3_factor", [](C& c) { c.rope.factor = 2.0; }},
      {"rope_llama3_low_freq_factor", [](C& c) { c.rope.low_freq_factor = 2.0; }},
      {"rope_llama3_high_freq_factor", [](C& c) { c.rope.high_freq_factor = 16.0; }},
      {"rope_llama3_original_max_position_embeddings", [](C& c) { c.rope.original_max_position_embeddings = 128; }},
  };
  return changes;
}

class ModelEffect : public ::testing::TestWithParam<ModelChange> {};

TEST_P(ModelEffect, ChangesLossAndGradient) {
  EngineFixture fixture;
  const model::ModelConfig base = base_for(GetParam().name);
  model::ModelConfig changed = base;
  GetParam().apply(changed);
  const data::Batch batch = make_batch({{40, 20}}, 64, 61, 31);
  const auto a = fixture.gradient(fixture.spec(base, batch), batch);
  const auto b = fixture.gradient(fixture.spec(changed, batch), batch);
  EXPECT_GT(std::abs(a.result.loss - b.result.loss), 1e-7) << a.result.loss;
  EXPECT_GT(std::abs(a.result.grad_norm - b.result.grad_norm), 1e-7) << a.result.grad_norm;
}

INSTANTIATE_TEST_SUITE_P(AllKeys, ModelEffect, ::testing::ValuesIn(model_changes()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

// initializer_range and max_position_embeddings do not enter forward: one draws the weights, one bounds the positions.
TEST(ModelEffect, InitializerRangeReachesTheParameterTable) {
  model::ModelConfig c = tiny_config();
  c.initializer_range = 0.5;
  for (const model::ParamSpec& p : model::build_param_table(c).params) {
    EXPECT_EQ(p.init_std, p.is_matrix() ? 0.5 : 0.0) << p.name;
  }
}

// Each bias, norm and projection has a gradient of its own: none is built and never called.
TEST(ModelEffect, EveryParameterHasAGradient) {
  EngineFixture fixture;
  for (const model::ModelConfig& config : {tiny_config(), busy_config()}) {
    const data::Batch batch = make_batch({{40, 20}, {64}}, 64, config.vocab_size, 31);
    const auto g = fixture.gradient(fixture.spec(config, batch), batch);
    for (const model::ParamSpec& p : model::build_param_table(config).params) {
      double norm = 0.0;
      for (std::int64_t i = 0; i < p.numel(); ++i) norm += std::abs(g.values[static_cast<std::size_t>(p.offset_elems + i)]);
      // The key bias cancels in the softmax when keys are not normed; its gradient is rounding noise.
      if (p.name.ends_with("k_proj.bias") && !config.qk_norm) continue;
      EXPECT_GT(norm, 1e-6) << p.name;
    }
  }
}

struct OptimizerChange {
  const char* name;
  std::function<void(optim::OptimizerConfig&)> apply;
};

class OptimizerEffect : public ::testing::TestWithParam<OptimizerChange> {
 protected:
  std::vector<float> weights_after(const optim::OptimizerConfig& config, double lr) {
    const data::Batch batch = make_batch({{40, 20}}, 64, 61, 31);
    train::EngineSpec spec = fixture_.spec(tiny_config(), batch);
    spec.optimizer = config;
    train::Engine engine(spec, fixture_.device(), fixture_.backend());
    engine.set_masters(random_masters(engine.table(), 7));
    for (std::int64_t step = 1; step <= 2; ++step) {
      const train::StepResult result = engine.accumulate(batch);
      engine.update(step, lr, result.grad_norm);
    }
    std::vector<float> weights(static_cast<std::size_t>(engine.table().total_elems));
    engine.read_buffer(engine.buffers().weights, weights.data());
    return weights;
  }
  EngineFixture fixture_;
};

TEST_P(OptimizerEffect, ChangesTheWeights) {
  optim::OptimizerConfig base{.clip_norm = 0.5};
  optim::OptimizerConfig changed = base;
  GetParam().apply(changed);
  EXPECT_FALSE(same_bits(weights_after(base, 1e-3), weights_after(changed, 1e-3)));
}

INSTANTIATE_TEST_SUITE_P(AllKeys, OptimizerEffect,
                         ::testing::Values(OptimizerChange{"name", [](auto& c) { c.kind = ops::OptimizerKind::kLion; }},
                                           OptimizerChange{"beta1", [](auto& c) { c.beta1 = 0.5; }},
                                           OptimizerChange{"beta2", [](auto& c) { c.beta2 = 0.5; }},
                                           OptimizerChange{"eps", [](auto& c) { c.eps = 1e-2; }},
                                           OptimizerChange{"weight_decay", [](auto& c) { c.weight_decay = 0.5; }},
                                           OptimizerChange{"clip_norm", [](auto& c) { c.clip_norm = 1e-7; }},
                                           OptimizerChange{"decay", [](auto& c) { c.decay = optim::DecaySet::kAll; }},
                                           OptimizerChange{"state", [](auto& c) { c.state_dtype = DType::kBF16; }}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_F(OptimizerEffect, LearningRate) {
  const optim::OptimizerConfig config;
  EXPECT_FALSE(same_bits(weights_after(config, 1e-3), weights_after(config, 2e-3)));
}

// lr 0: nothing moves, neither by gradient nor by decay.
TEST_F(OptimizerEffect, ZeroLearningRateLeavesEveryBit) {
  const model::ParamTable table = model::build_param_table(tiny_config());
  EXPECT_TRUE(same_bits(weights_after({.weight_decay = 0.1}, 0.0), random_masters(table, 7)));
}

}  // namespace
}  // namespace ida::testing
