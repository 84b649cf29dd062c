// The loss is one mean over the targets of the global batch: how the batch is cut into micro-batches, and at which scale
// the gradient enters backward, must not change loss or gradient (f32, 1e-6).
#include "support/tiny_model.h"

namespace ida::testing {
namespace {

// Rows with 1 to 6 targets: any mean of means would show.
data::Batch uneven_batch(std::int64_t vocab) { return make_batch({{2}, {3}, {4}, {5}, {6}, {7}}, 8, vocab, 3); }

class BatchSplit : public ::testing::TestWithParam<train::BackwardScale> {};

TEST_P(BatchSplit, AnySplitGivesTheSameLossAndGradient) {
  EngineFixture fixture;
  const model::ModelConfig config = busy_config();
  const data::Batch batch = uneven_batch(config.vocab_size);
  train::EngineSpec spec = fixture.spec(config, batch);
  spec.backward_scale = train::BackwardScale::kGlobalMean;
  const auto whole = fixture.gradient(spec, batch);
  spec.backward_scale = GetParam();
  for (const std::int64_t micro : {1, 2, 3, 6}) {
    spec.micro_batch_rows = micro;
    const auto split = fixture.gradient(spec, batch);
    EXPECT_NEAR(split.result.loss, whole.result.loss, 1e-6 * whole.result.loss) << micro;
    EXPECT_NEAR(split.result.grad_norm, whole.result.grad_norm, 1e-6 * whole.result.grad_norm) << micro;
    EXPECT_LT(relative_difference(split.values, whole.values), 1e-6) << micro;
  }
}

INSTANTIATE_TEST_SUITE_P(AllScales, BatchSplit,
                         ::testing::Values(train::BackwardScale::kMicroBatchMean, train::BackwardScale::kGlobalMean,
                                           train::BackwardScale::kSum));

// B010: 100 targets at 0.5 and 900 at 0.3 are 0.32, not 0.4. Here: the loss is the target-weighted mean of the rows'.
TEST(BatchSplit, LossIsWeightedByTargets) {
  EngineFixture fixture;
  const model::ModelConfig config = tiny_config();
  const data::Batch batch = make_batch({{2}, {33}}, 40, config.vocab_size, 9);
  train::EngineSpec spec = fixture.spec(config, batch);
  const std::vector<float> nll = fixture.nll(spec, batch);
  const double sum = std::accumulate(nll.begin(), nll.end(), 0.0);
  spec.micro_batch_rows = 1;
  EXPECT_NEAR(fixture.gradient(spec, batch).result.loss, sum / 33.0, 1e-6);
}

TEST(BatchSplit, MicroBatchWithoutTargetsChangesNothing) {
  EngineFixture fixture;
  const model::ModelConfig config = tiny_config();
  const data::Batch with_empty = make_batch({{7}, {1}}, 8, config.vocab_size, 5);
  data::Batch alone;
  data::split_batch(with_empty, 0, 1, alone);
  train::EngineSpec spec = fixture.spec(config, alone);
  const auto one = fixture.gradient(spec, alone);
  const auto two = fixture.gradient(spec, with_empty);
  EXPECT_EQ(one.result.loss, two.result.loss);
  EXPECT_TRUE(same_bits(one.values, two.values));
}

TEST(BatchSplit, NoTargetAtAllIsZeroNotNaN) {
  EngineFixture fixture;
  const model::ModelConfig config = tiny_config();
  const data::Batch batch = make_batch({{1}, {1, 1}}, 4, config.vocab_size, 5);
  const auto g = fixture.gradient(fixture.spec(config, batch), batch);
  EXPECT_EQ(g.result.loss, 0.0);
  EXPECT_TRUE(g.result.finite);
  EXPECT_EQ(*std::max_element(g.values.begin(), g.values.end()), 0.0f);
  EXPECT_EQ(*std::min_element(g.values.begin(), g.values.end()), 0.0f);
}

}  // namespace
}  // namespace ida::testing
