#include "eval/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace ida::eval {
namespace {

constexpr std::array<float, 4> kLogits = {1.0f, 3.0f, 3.0f, -1.0f};

TEST(Sampler, GreedyTakesTheFirstHighest) { EXPECT_EQ(sample_token(kLogits, {}, 0, 0), 1); }

TEST(Sampler, IsAPureFunctionOfSeedStreamAndIndex) {
  const SamplingOptions options{.temperature = 1.0, .seed = 5};
  int changes = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(sample_token(kLogits, options, 3, i), sample_token(kLogits, options, 3, i));
    changes += sample_token(kLogits, options, 3, i) != sample_token(kLogits, options, 4, i) ? 1 : 0;
  }
  EXPECT_GT(changes, 0);
}

// Counts of 20000 draws within 5 standard deviations of softmax(logits / temperature).
TEST(Sampler, FollowsTheDistribution) {
  const SamplingOptions options{.temperature = 2.0, .seed = 9};
  std::array<double, 4> expected{};
  double total = 0.0;
  for (std::size_t i = 0; i < 4; ++i) total += expected[i] = std::exp(kLogits[i] / 2.0);
  std::array<int, 4> counts{};
  constexpr int kDraws = 20000;
  for (std::uint64_t i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(sample_token(kLogits, options, 0, i))];
  for (std::size_t i = 0; i < 4; ++i) {
    const double p = expected[i] / total;
    EXPECT_NEAR(counts[i], kDraws * p, 5.0 * std::sqrt(kDraws * p * (1.0 - p))) << i;
  }
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_NE(sample_token(kLogits, {.temperature = 5.0, .top_k = 3}, 0, i), 3);
    const auto nucleus = sample_token(kLogits, {.temperature = 1.0, .top_p = 0.9}, 0, i);
    EXPECT_TRUE(nucleus == 1 || nucleus == 2);                                       // together 0.93
    EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_p = 1e-6}, 0, i), 1);  // never empty
  }
}

}  // namespace
}  // namespace ida::eval
