// Generation with a key/value cache equals generation by full forward passes, alone and in a batch.
#include "eval/generate.h"

#include "support/tiny_model.h"

namespace ida::eval {
namespace {

using testing::busy_config;
using testing::random_masters;
using testing::tiny_config;

class GenerateTest : public ::testing::TestWithParam<bool> {
 protected:
  GenerateTest() {
    const model::ModelConfig config = GetParam() ? busy_config() : tiny_config();
    const data::Batch batch = testing::make_batch({{64}}, 64, config.vocab_size, 1);
    train::EngineSpec spec = fixture_.spec(config, batch);
    spec.max_positions = 128;
    spec.sample_shape = {.num_sequences = 3, .prompt_tokens = 40, .capacity = 64};
    engine_ = std::make_unique<train::Engine>(spec, fixture_.device(), fixture_.backend());
    engine_->set_masters(random_masters(engine_->table(), 7));
  }
  ForwardModel model() { return {engine_->context(), fixture_.device(), engine_->decoder(), engine_->buffers()}; }

  std::vector<std::int32_t> greedy_without_cache(std::vector<std::int32_t> tokens, std::int64_t count) {
    std::vector<std::int32_t> output;
    const auto vocab = static_cast<std::size_t>(engine_->decoder().config().vocab_size);
    for (std::int64_t i = 0; i < count; ++i) {
      HostTokens host{
          .tokens = tokens, .labels = std::vector<std::int32_t>(tokens.size(), -100), .positions = {}, .segments = {}};
      for (std::size_t t = 0; t < tokens.size(); ++t) host.positions.push_back(static_cast<std::int32_t>(t));
      const auto length = static_cast<std::int32_t>(tokens.size());
      host.segments = {{.q_begin = 0, .q_len = length, .kv_begin = 0, .kv_len = length}};
      const std::vector<float> logits = all_logits(model(), host);
      const std::span<const float> last(logits.data() + (tokens.size() - 1) * vocab, vocab);
      output.push_back(sample_token(last, {}, 0, 0));
      tokens.push_back(output.back());
    }
    return output;
  }

  testing::EngineFixture fixture_;
  std::unique_ptr<train::Engine> engine_;
};

TEST_P(GenerateTest, CacheEqualsFullForward) {
  const std::vector<std::vector<std::int32_t>> prompts = {{1, 5, 9}, {7}, {3, 3, 4, 11, 30, 2, 8}};
  GenerateOptions options;
  options.max_new_tokens = 20;
  const auto batched = generate(model(), prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(batched[i], greedy_without_cache(prompts[i], 20)) << i;
    EXPECT_EQ(generate(model(), {prompts[i]}, options).front(), batched[i]) << i;
  }
}

TEST_P(GenerateTest, StopsAtAStopId) {
  GenerateOptions options;
  options.max_new_tokens = 20;
  const auto free = generate(model(), {{1, 5, 9}}, options).front();
  options.stop_ids = {free[6]};
  const auto stopped = generate(model(), {{1, 5, 9}}, options).front();
  const auto at = std::find(free.begin(), free.end(), free[6]);
  EXPECT_EQ(stopped, std::vector<std::int32_t>(free.begin(), at));
}

TEST_P(GenerateTest, BadPromptsAreRefused) {
  const auto code = [&](const std::vector<std::vector<std::int32_t>>& prompts) {
    try {
      generate(model(), prompts, {});
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code({}), ExitCode::kUsage);
  EXPECT_EQ(code({{}}), ExitCode::kUsage);
  EXPECT_EQ(code({{1, 61}}), ExitCode::kUsage);
  EXPECT_EQ(code({{-1}}), ExitCode::kUsage);
  EXPECT_EQ(code({std::vector<std::int32_t>(100, 1)}), ExitCode::kUsage);
}

INSTANTIATE_TEST_SUITE_P(All, GenerateTest, ::testing::Values(false, true));

}  // namespace
}  // namespace ida::eval
