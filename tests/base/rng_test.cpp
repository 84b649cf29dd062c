#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ida {
namespace {

// The generator's published vectors: Random123, kat_vectors, philox4x32 with 10 rounds.
TEST(Rng, PhiloxGivesThePublishedBlocks) {
  EXPECT_EQ(philox4x32(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(philox4x32(ones, ones, ones), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, NormalPairsAreBoxMuller) {
  for (std::uint64_t pair = 0; pair < 100000; ++pair) {
    const PhiloxBlock block = philox4x32(42, 5, pair);
    const double u = (static_cast<double>(block[0]) + 1.0) * 0x1.0p-32;
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(block[1]) * 0x1.0p-32;
    const NormalPair parts = normal_pair_parts(42, 5, pair);
    ASSERT_NEAR(parts.square, -2.0 * std::log(u), 1e-14 * parts.square) << pair;
    ASSERT_NEAR(parts.cosine, std::cos(angle), 2e-15) << pair;
    ASSERT_NEAR(parts.sine, std::sin(angle), 2e-15) << pair;
  }
}

// Mean, deviation and tail of a million values; the bounds are 5 standard deviations of each estimate.
TEST(Rng, NormalValuesAreNormal) {
  constexpr int kValues = 1000000;
  double sum = 0.0, squares = 0.0;
  int beyond_two = 0;
  for (int i = 0; i < kValues; ++i) {
    const double x = normal_at(1, 2, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2.0 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kValues, 0.0, 5e-3);
  EXPECT_NEAR(squares / kValues, 1.0, 7.1e-3);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kValues, 0.045500, 1.05e-3);
}

TEST(Rng, StreamsAndSeedsDiffer) {
  EXPECT_NE(normal_at(1, 2, 0), normal_at(1, 3, 0));
  EXPECT_NE(normal_at(1, 2, 0), normal_at(2, 2, 0));
  EXPECT_NE(normal_at(1, 2, 0), normal_at(1, 2, 1));
}

}  // namespace
}  // namespace ida
