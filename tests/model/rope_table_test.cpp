#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace ida::model {
namespace {

// Distance on the circle between the table's entry and the angle in f64.
double phase_error(float cos, float sin, double angle) {
  const double difference =
      std::atan2(static_cast<double>(sin), static_cast<double>(cos)) - std::fmod(angle, 2.0 * std::numbers::pi);
  return std::abs(std::remainder(difference, 2.0 * std::numbers::pi));
}

// A bf16 inv_freq or table is off by up to pi at position 4096; f32 stays below half a unit of the angle.
class RopeTable : public ::testing::TestWithParam<double> {};

TEST_P(RopeTable, PhaseErrorStaysSmallFarOut) {
  constexpr std::int64_t kDim = 64;
  constexpr std::int64_t kPositions = 8193;
  RopeConfig rope;
  rope.theta = GetParam();
  std::vector<float> cos(static_cast<std::size_t>(kPositions * kDim / 2));
  std::vector<float> sin(cos.size());
  fill_rope_table(rope, kDim, kPositions, cos.data(), sin.data());
  for (const std::int64_t position : {0, 1, 512, 2048, 4096, 8192}) {
    for (std::int64_t i = 0; i < kDim / 2; ++i) {
      const double angle = static_cast<double>(position) * std::pow(rope.theta, -2.0 * static_cast<double>(i) / kDim);
      const auto at = static_cast<std::size_t>(position * kDim / 2 + i);
      EXPECT_LT(phase_error(cos[at], sin[at], angle), 1e-3) << position << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Theta, RopeTable, ::testing::Values(1e4, 1.3e5, 5e5));

TEST(RopeInvFreq, PlainIsAPowerOfTheta) {
  RopeConfig rope;
  rope.theta = 10000.0;
  const std::vector<float> f = rope_inv_freq(rope, 8);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_FLOAT_EQ(f[0], 1.0f);
  EXPECT_FLOAT_EQ(f[1], 0.1f);
  EXPECT_FLOAT_EQ(f[3], 0.001f);
}

// Llama-3.2: factor 32, low 1, high 4, 8192 positions. Wavelengths below 2048 stay, above 8192 are divided by 32.
TEST(RopeInvFreq, Llama3KeepsShortDividesLongBlendsBetween) {
  RopeConfig rope{.type = RopeType::kLlama3,
                  .theta = 5e5,
                  .factor = 32.0,
                  .low_freq_factor = 1.0,
                  .high_freq_factor = 4.0,
                  .original_max_position_embeddings = 8192};
  RopeConfig plain;
  plain.theta = 5e5;
  const std::vector<float> scaled = rope_inv_freq(rope, 64);
  const std::vector<float> base = rope_inv_freq(plain, 64);
  int kept = 0, divided = 0, blended = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double wavelength = 2.0 * std::numbers::pi / base[i];
    if (wavelength < 2048.0) {
      EXPECT_EQ(scaled[i], base[i]) << i;
      ++kept;
    } else if (wavelength > 8192.0) {
      EXPECT_FLOAT_EQ(scaled[i], base[i] / 32.0f) << i;
      ++divided;
    } else {
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      EXPECT_NEAR(scaled[i], (1.0 - smooth) * base[i] / 32.0 + smooth * base[i], 1e-7 * base[i]) << i;
      ++blended;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(blended, 0);
}

}  // namespace
}  // namespace ida::model
