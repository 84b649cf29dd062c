#include "config/presets.h"
#include "config/support.h"

namespace ida::config {
namespace {

// Parameters of a llama without biases: embedding, per layer q, k, v, o, gate, up, down and two norms, the last norm.
std::int64_t num_parameters(const ModelSettings& m) {
  const std::int64_t hidden = *m.hidden_size;
  const std::int64_t head_dim = m.head_dim.value_or(hidden / *m.num_attention_heads);
  const std::int64_t q = *m.num_attention_heads * head_dim, kv = *m.num_key_value_heads * head_dim;
  const std::int64_t layer = 2 * q * hidden + 2 * kv * hidden + 3 * hidden * *m.intermediate_size + 2 * hidden;
  return (*m.tie_word_embeddings ? 1 : 2) * *m.vocab_size * hidden + *m.num_hidden_layers * layer + hidden;
}

TEST(Preset, PublishedParameterCounts) {
  EXPECT_EQ(num_parameters(find_preset("ember-30m")->model), 31465984);
  EXPECT_EQ(num_parameters(find_preset("smollm2-135m")->model), 134515008);
  EXPECT_EQ(num_parameters(find_preset("smollm2-1.7b")->model), 1711376384);
  EXPECT_EQ(num_parameters(find_preset("tiny")->model), 3803392);
}

TEST(Preset, NamesAreTheTable) {
  ASSERT_EQ(preset_names().size(), all_presets().size());
  for (std::size_t i = 0; i < all_presets().size(); ++i) EXPECT_EQ(all_presets()[i].name, preset_names()[i]);
  EXPECT_EQ(find_preset("none"), nullptr);
}

TEST(Preset, FillsWhatIsNotSet) {
  const std::vector<std::string> overrides = {"model.num_hidden_layers=3", "model.tie_word_embeddings=false"};
  const RunConfig config = parse_run_config(kMinimal, "t", overrides);
  ModelSettings expected = find_preset("tiny")->model;
  expected.preset = "tiny";
  expected.num_hidden_layers = 3;
  expected.tie_word_embeddings = false;
  EXPECT_TRUE(config.model == expected);
  EXPECT_EQ(config.source_of("model.hidden_size"), Source::kDerived);
  EXPECT_EQ(config.source_of("model.num_hidden_layers"), Source::kSet);
  EXPECT_TRUE(contains(dump_resolved(config), "hidden_size = 256  # derived\n"));
  EXPECT_TRUE(parse_run_config(dump_resolved(config), "dump") == config);
}

TEST(Preset, RefusesAFamilyThatIsNotThere) {
  EXPECT_EQ(refused_parse(kMinimal, {"model.preset=minitron-4b"}),
            "run.toml: model.preset = \"minitron-4b\": family nemotron is not implemented");
  EXPECT_TRUE(contains(refused_parse(kMinimal, {"model.preset=smollm2-135"}), "did you mean smollm2-135m?"));
}

}  // namespace
}  // namespace ida::config
