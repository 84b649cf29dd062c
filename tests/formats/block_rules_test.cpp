#include "formats/block_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace ida::formats {
namespace {

Amax amax_of(double x) { return magnitude_bits(static_cast<float>(x)); }

TEST(MxScale, FloorAndCeilByLogarithms) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> exponent(-148.0, 127.9);
  for (const Element element : {Element::kE4m3, Element::kE5m2, Element::kE2m1}) {
    const double max = static_cast<double>(element_max(element));
    for (int i = 0; i < 20000; ++i) {
      const auto amax = static_cast<double>(static_cast<float>(std::exp2(exponent(generator))));
      const int floor_e = std::ilogb(amax) - element_max_exponent(element);
      int ceil_e = floor_e;
      while (std::ldexp(amax, -ceil_e) > max) ++ceil_e;
      while (std::ldexp(amax, -(ceil_e - 1)) <= max) --ceil_e;
      const auto byte = [](int e) { return std::clamp(e, -127, 127) + 127; };
      ASSERT_EQ(mx_scale(amax_of(amax), element, ScaleRule::kFloor), byte(floor_e)) << amax;
      ASSERT_EQ(mx_scale(amax_of(amax), element, ScaleRule::kCeil), byte(ceil_e)) << amax;
    }
  }
}

TEST(MxScale, Edges) {
  const auto scale = [](double x, ScaleRule rule) { return mx_scale(amax_of(x), Element::kE4m3, rule); };
  EXPECT_EQ(scale(0.0, ScaleRule::kCeil), 0) << "a block of zeros";
  EXPECT_EQ(scale(448.0, ScaleRule::kCeil), 127);
  EXPECT_EQ(scale(449.0, ScaleRule::kCeil), 128) << "rounded up: nothing saturates";
  EXPECT_EQ(scale(449.0, ScaleRule::kFloor), 127);
  EXPECT_EQ(scale(511.0, ScaleRule::kFloor), 127);
  EXPECT_EQ(scale(std::numeric_limits<float>::denorm_min(), ScaleRule::kCeil), 0) << "clipped at 2^-127";
  EXPECT_EQ(scale(std::numeric_limits<float>::max(), ScaleRule::kCeil), 127 + 120);
  for (const ScaleRule rule : {ScaleRule::kFloor, ScaleRule::kCeil}) {
    EXPECT_EQ(scale(std::numeric_limits<double>::infinity(), rule), 0xFF);
    EXPECT_EQ(scale(std::nan(""), rule), 0xFF);
  }
}

TEST(MxScale, TheFactorIsTheInverse) {
  for (int byte = 0; byte < 255; ++byte) {
    const auto b = static_cast<std::uint8_t>(byte);
    EXPECT_EQ(static_cast<double>(mx_encode_factor(b)) * static_cast<double>(decode_ue8m0(b)), 1.0) << byte;
  }
  EXPECT_EQ(mx_encode_factor(0xFF), 0.0f);
}

TEST(F32ScaleRule, EveryBranch) {
  const F32Scale zero = f32_scale(0, Element::kE4m3, false);
  EXPECT_EQ(zero.encode, 1.0f);
  EXPECT_EQ(zero.decode, 1.0f);
  const F32Scale one = f32_scale(amax_of(3.5), Element::kE4m3, false);
  EXPECT_EQ(one.encode, 128.0f);
  EXPECT_EQ(one.decode, 1.0f / 128.0f);
  const F32Scale tiny = f32_scale(amax_of(1e-44), Element::kE4m3, false);
  EXPECT_EQ(tiny.encode, kMaxF32) << "the quotient overflows";
  EXPECT_TRUE(std::isnan(f32_scale(amax_of(std::nan("")), Element::kE4m3, false).decode));
  EXPECT_TRUE(std::isnan(f32_scale(kAmaxInfinity, Element::kE5m2, true).decode));
  std::mt19937 generator(2);
  std::uniform_real_distribution<double> exponent(-110.0, 120.0);
  for (int i = 0; i < 10000; ++i) {
    const auto x = static_cast<float>(std::exp2(exponent(generator)));
    const F32Scale s = f32_scale(magnitude_bits(x), Element::kE4m3, true);
    EXPECT_EQ(s.encode * s.decode, 1.0f);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(s.decode) & 0x7FFFFFu, 0u) << "not a power of two";
    EXPECT_LE(x * s.encode, 448.0f);
    EXPECT_GT(x * s.encode, 224.0f);
  }
}

TEST(Nvfp4Scales, Rules) {
  const QuantFormat two_level{.grid = ScaleGrid::kNv16, .element = Element::kE2m1};
  EXPECT_EQ(nvfp4_tensor_scale(amax_of(2688.0), two_level), 1.0f);
  EXPECT_EQ(nvfp4_tensor_scale(0, two_level), 0.0f);
  EXPECT_TRUE(std::isnan(nvfp4_tensor_scale(kAmaxInfinity, two_level)));
  QuantFormat four = two_level;
  four.four_over_six = true;
  EXPECT_EQ(nvfp4_tensor_scale(amax_of(1536.0), four), 1.0f);
  QuantFormat single = two_level;
  single.two_level = false;
  EXPECT_EQ(nvfp4_tensor_scale(amax_of(123.0), single), 1.0f);
  EXPECT_EQ(decode<E4m3>(nvfp4_block_scale(amax_of(6.0), 1.0f, 6.0f)), 1.0f);
  EXPECT_EQ(nvfp4_block_scale(amax_of(1e9), 1.0f, 6.0f), E4m3::kMaxCode) << "saturates, never the NaN byte";
  EXPECT_EQ(nvfp4_block_scale(amax_of(1e-3), 1.0f, 6.0f), 0) << "below the smallest e4m3: the cliff";
  EXPECT_EQ(nvfp4_block_scale(kAmaxInfinity, 1.0f, 6.0f), E4m3::kNanCode);
  EXPECT_EQ(nvfp4_block_scale(amax_of(1.0), kNanF32, 6.0f), E4m3::kNanCode);
  EXPECT_EQ(nvfp4_block_scale(amax_of(1.0), 0.0f, 6.0f), 0);
  EXPECT_EQ(nvfp4_code_nearest(-3.0f, 0, 1.0f), 0) << "no sign under a scale of zero";
  EXPECT_EQ(nvfp4_code_nearest(-3.0f, E4m3::kNanCode, 1.0f), 0);
  // A subnormal scale: 3 * 2^-9.
  EXPECT_EQ(nvfp4_code_nearest(6.0f * 3.0f / 512.0f, 3, 1.0f), E2m1::kMaxCode);
  EXPECT_LE(nvfp4_encode_factor(1, 1e-38f), kMaxF32);
}

// 0.125 / (0.25 * f32(1/2688 ...)): ties must be found although no f32 product or reciprocal holds the quotient.
TEST(Nvfp4Scales, TiesAreThoseOfTheRoundedQuotient) {
  std::mt19937 generator(4);
  int ties = 0;
  for (int i = 0; i < 200000; ++i) {
    const float g = static_cast<float>(generator() % 1000 + 1) / 2688.0f;
    const auto scale = static_cast<std::uint8_t>(generator() % 126 + 1);
    const double divisor = static_cast<double>(decode<E4m3>(scale)) * static_cast<double>(g);
    const auto x = static_cast<float>(2.5 * divisor);  // near the tie between 2 and 3
    const auto quotient = static_cast<float>(static_cast<double>(x) / divisor);
    const int want = quotient > 2.5f ? 5 : 4;
    EXPECT_EQ(nvfp4_code_nearest(x, scale, g), want);
    ties += quotient == 2.5f ? 1 : 0;
  }
  EXPECT_GT(ties, 100000);
}

TEST(Prescale, RoundsTheLogarithm) {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> exponent(-148.0, 127.9);
  for (int i = 0; i < 50000; ++i) {
    const auto amax = static_cast<float>(std::exp2(exponent(generator)));
    const auto want = static_cast<int>(std::lround(std::log2(4.0 / static_cast<double>(amax))));
    ASSERT_EQ(prescale_exponent(magnitude_bits(amax)), std::clamp(want, -126, 126)) << amax;
  }
  EXPECT_EQ(prescale_exponent(0), 0);
  EXPECT_EQ(prescale_exponent(kAmaxInfinity), 0);
  for (int e = -126; e <= 126; ++e) EXPECT_EQ(exp2_f32(e) * exp2_f32(-e), 1.0f) << "the inverse is exact";
}

TEST(RandomBits, DependOnTensorElementStepAndSeed) {
  const RandomKey key{.seed = 1, .tensor = 2, .step = 3};
  EXPECT_EQ(random_bits(key, 12345), random_bits(key, 12345));
  const auto differ = [&](const RandomKey& other) {
    int count = 0;
    for (std::uint64_t i = 0; i < 64; ++i) count += random_bits(key, i) != random_bits(other, i) ? 1 : 0;
    return count > 60;
  };
  EXPECT_TRUE(differ({.seed = 2, .tensor = 2, .step = 3}));
  EXPECT_TRUE(differ({.seed = 1, .tensor = 3, .step = 3}));
  EXPECT_TRUE(differ({.seed = 1, .tensor = 2, .step = 4}));
  std::set<std::uint32_t> values;
  for (std::uint64_t i = 0; i < 1000; ++i) values.insert(random_bits(key, i));
  EXPECT_GT(values.size(), 980u);
  double mean = 0.0;
  for (std::uint64_t i = 0; i < 100000; ++i) mean += random_bits(key, i) * 0x1p-32 / 100000;
  EXPECT_NEAR(mean, 0.5, 5 * 0.289 / std::sqrt(100000.0));
}

TEST(HadamardTransform, IsOrthogonalAndItsInverseKnown) {
  for (const std::uint16_t signs : {kHadamardSigns, hadamard_signs(1, 2), std::uint16_t{0}}) {
    float columns[16][16];
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) columns[i][j] = i == j ? 1.0f : 0.0f;
      hadamard16(columns[i], signs);
    }
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        float dot = 0.0f;
        for (int k = 0; k < 16; ++k) dot += columns[i][k] * columns[j][k];
        EXPECT_EQ(dot, i == j ? 1.0f : 0.0f);
        EXPECT_EQ(std::abs(columns[i][j]), 0.25f);
      }
      EXPECT_EQ(std::signbit(columns[i][0]), (signs >> i & 1) != 0);
    }
  }
  EXPECT_NE(hadamard_signs(1, 2), hadamard_signs(1, 3));
}

TEST(QuantFormats, NamesComeBack) {
  for (const char* name : {"fp8_tensor", "fp8_row", "fp8_vec128", "fp8_block128", "mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"})
    EXPECT_EQ(format_name(format_of_name(name).value()), name);
  EXPECT_FALSE(format_of_name("fp4"));
  EXPECT_EQ(code_row_bytes(*format_of_name("nvfp4"), 33), 17);
  EXPECT_EQ(scales_per_row(*format_of_name("mxfp4"), 33), 2);
  EXPECT_EQ(scale_rows(*format_of_name("fp8_block128"), 129), 2);
}

}  // namespace
}  // namespace ida::formats
