#include "formats/minifloat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace ida::formats {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Slow and independent: the nearest of all finite values, the even code at a tie.
template <typename F>
std::uint8_t nearest_by_search(float x) {
  int best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code <= F::kMaxCode; ++code) {
    const double distance =
        std::abs(std::abs(static_cast<double>(x)) - static_cast<double>(decode<F>(static_cast<std::uint8_t>(code))));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return static_cast<std::uint8_t>(best | (std::signbit(x) ? 1 << kSignShift<F> : 0));
}

// From the sign, the exponent and the mantissa as the standard's formula has them, in f64.
template <typename F>
double value_by_formula(int code) {
  const int magnitude = code & ((1 << kSignShift<F>)-1);
  const int exponent = magnitude >> F::kMantissaBits;
  const int mantissa = magnitude & ((1 << F::kMantissaBits) - 1);
  const double fraction = mantissa / static_cast<double>(1 << F::kMantissaBits);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - F::kBias) : std::ldexp(1.0 + fraction, exponent - F::kBias);
  return code >> kSignShift<F> != 0 ? -value : value;
}

template <typename F>
class Minifloat : public ::testing::Test {};
using Formats = ::testing::Types<E4m3, E5m2, E2m1>;
TYPED_TEST_SUITE(Minifloat, Formats);

TYPED_TEST(Minifloat, EveryCodeDecodesToTheFormula) {
  using F = TypeParam;
  for (int code = 0; code < 2 << kSignShift<F>; ++code) {
    const int magnitude = code & ((1 << kSignShift<F>)-1);
    const float value = decode<F>(static_cast<std::uint8_t>(code));
    if (magnitude <= F::kMaxCode) {
      EXPECT_EQ(static_cast<double>(value), value_by_formula<F>(code)) << code;
      EXPECT_EQ(std::signbit(value), code >> kSignShift<F> != 0) << code;
      EXPECT_EQ(encode_nearest<F>(value), code) << code;
      for (const std::uint32_t random : {0u, 0x7FFFFFFFu, 0xFFFFFFFFu})
        EXPECT_EQ(encode_stochastic<F>(value, random), code);
    } else if (magnitude == 0x7C && F::kExponentBits == 5) {
      EXPECT_TRUE(std::isinf(value)) << code;
    } else {
      EXPECT_TRUE(std::isnan(value)) << code;
    }
  }
  EXPECT_EQ(decode<F>(F::kMaxCode), F::kMax);
  EXPECT_EQ(std::ilogb(F::kMax), F::kMaxExponent);
}

TYPED_TEST(Minifloat, RoundsToTheNearestTiesToEven) {
  using F = TypeParam;
  std::vector<float> values;
  for (int code = 0; code < F::kMaxCode; ++code) {
    const float low = decode<F>(static_cast<std::uint8_t>(code));
    const float high = decode<F>(static_cast<std::uint8_t>(code + 1));
    const float tie = (low + high) / 2;
    for (const float x : {low, tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f), std::nextafter(low, 1e9f)})
      values.push_back(x);
  }
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> exponent(-24.0f, 17.0f);
  for (int i = 0; i < 20000; ++i) values.push_back(std::exp2(exponent(generator)));
  for (const float x : values) {
    for (const float signed_x : {x, -x}) {
      ASSERT_EQ(encode_nearest<F>(signed_x), nearest_by_search<F>(signed_x)) << signed_x;
    }
  }
}

TYPED_TEST(Minifloat, SpecialValues) {
  using F = TypeParam;
  constexpr int kSign = 1 << kSignShift<F>;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto encode :
       {+[](float x) { return encode_nearest<F>(x); }, +[](float x) { return encode_stochastic<F>(x, 0xFFFFFFFFu); }}) {
    EXPECT_EQ(encode(0.0f), 0);
    EXPECT_EQ(encode(-0.0f), kSign);
    EXPECT_EQ(encode(infinity), F::kMaxCode) << "saturates";
    EXPECT_EQ(encode(-infinity), F::kMaxCode | kSign);
    EXPECT_EQ(encode(std::numeric_limits<float>::max()), F::kMaxCode);
    EXPECT_EQ(encode(F::kMax * 1.5f), F::kMaxCode) << "not NaN";
    EXPECT_EQ(encode(std::nanf("")), F::kNanCode);
    EXPECT_EQ(encode(-std::nanf("")), F::kNanCode);
    EXPECT_EQ(encode(std::numeric_limits<float>::denorm_min()), 0);
  }
}

// Mean of many draws: within five standard errors of x. A fair draw between two neighbours has no other mean.
TYPED_TEST(Minifloat, StochasticRoundingIsUnbiased) {
  using F = TypeParam;
  constexpr int kDraws = 40000;
  std::mt19937 generator(2);
  for (const double place : {0.03, 0.25, 0.5, 0.9}) {
    for (const int code : {0, 1, 2, static_cast<int>(F::kMaxCode) / 2, static_cast<int>(F::kMaxCode) - 1}) {
      const double low = static_cast<double>(decode<F>(static_cast<std::uint8_t>(code)));
      const double high = static_cast<double>(decode<F>(static_cast<std::uint8_t>(code + 1)));
      const auto x = static_cast<float>(low + place * (high - low));
      double sum = 0.0;
      for (int i = 0; i < kDraws; ++i) {
        const std::uint8_t drawn = encode_stochastic<F>(x, static_cast<std::uint32_t>(generator()));
        ASSERT_TRUE(drawn == code || drawn == code + 1) << x;
        sum += static_cast<double>(decode<F>(drawn));
      }
      const double error = (high - low) * std::sqrt(place * (1 - place) / kDraws);
      EXPECT_NEAR(sum / kDraws, static_cast<double>(x), 5 * error) << "between codes " << code << " and " << code + 1;
    }
  }
}

TEST(Ue8m0Scale, EveryByte) {
  for (int byte = 0; byte < 255; ++byte)
    EXPECT_EQ(static_cast<double>(decode_ue8m0(static_cast<std::uint8_t>(byte))), std::ldexp(1.0, byte - 127)) << byte;
  EXPECT_TRUE(std::isnan(decode_ue8m0(255)));
}

TEST(Nibbles, TheFirstLiesLow) {
  EXPECT_EQ(pack_nibbles(0x3, 0xC), 0xC3);
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<std::uint8_t>(byte);
    EXPECT_EQ(nibble(b, 0), byte % 16);
    EXPECT_EQ(nibble(b, 1), byte / 16);
    EXPECT_EQ(pack_nibbles(nibble(b, 0), nibble(b, 1)), byte);
  }
}

std::uint8_t encode_by_name(const std::string& format, float x) {
  return format == "e4m3" ? encode_nearest<E4m3>(x) : format == "e5m2" ? encode_nearest<E5m2>(x) : encode_nearest<E2m1>(x);
}
float decode_by_name(const std::string& format, std::uint8_t code) {
  if (format == "ue8m0") return decode_ue8m0(code);
  return format == "e4m3" ? decode<E4m3>(code) : format == "e5m2" ? decode<E5m2>(code) : decode<E2m1>(code);
}

// make_ml_dtypes_table.py wrote the table.
TEST(MlDtypes, SameValuesAndCodes) {
  std::ifstream table(IDA_TESTS_DIR "/formats/ml_dtypes.tsv");
  std::string line;
  int compared = 0;
  while (std::getline(table, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string format, direction;
    std::uint32_t from = 0, to = 0;
    fields >> format >> direction >> from >> to;
    if (direction == "decode") {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(decode_by_name(format, static_cast<std::uint8_t>(from))), to) << line;
    } else {
      EXPECT_EQ(encode_by_name(format, from_bits(from)), to) << line;
    }
    ++compared;
  }
  EXPECT_GT(compared, 3000);
}

}  // namespace
}  // namespace ida::formats
