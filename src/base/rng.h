// Counter-based random numbers: a value is a pure function of (seed, stream, index), so nothing depends on
// thread count, call order or how often a step was replayed.
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), Philox4x32-10.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

namespace ida {

using PhiloxBlock = std::array<std::uint32_t, 4>;

template <int kRounds = 10>
constexpr PhiloxBlock philox4x32(std::uint64_t key, std::uint64_t counter_hi, std::uint64_t counter_lo) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock c = {static_cast<std::uint32_t>(counter_lo), static_cast<std::uint32_t>(counter_lo >> 32),
                   static_cast<std::uint32_t>(counter_hi), static_cast<std::uint32_t>(counter_hi >> 32)};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// Uniform in [0, 1) with 24 bits.
constexpr float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }

// Two independent values of N(0, 1) before their last step: sqrt(square) * cosine and sqrt(square) * sine.
struct NormalPair {
  double square = 0.0;  // of the radius
  double cosine = 0.0;
  double sine = 0.0;
};

// Values 2 * pair and 2 * pair + 1 of N(0, 1) in stream `stream` of `seed` (Box-Muller). Sums, products and quotients of
// f64 alone, each rounded once, so every device that does not contract them finds the same bits; the series are good to
// 1e-15, far below the f32 that the values become.
constexpr NormalPair normal_pair_parts(std::uint64_t seed, std::uint64_t stream, std::uint64_t pair) {
  const PhiloxBlock block = philox4x32(seed, stream, pair);
  // u = (block[0] + 1) / 2^32 in (0, 1], as mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2))
  const std::uint64_t bits = std::bit_cast<std::uint64_t>((static_cast<double>(block[0]) + 1.0) * 0x1.0p-32);
  std::int64_t exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (mantissa > std::numbers::sqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(mantissa) = 2 artanh(s)
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double s2 = s * s;
  double series = 1.0 / 21.0;
  for (int n = 19; n >= 1; n -= 2) series = series * s2 + 1.0 / n;
  const double log_u = 2.0 * s * series + static_cast<double>(exponent) * std::numbers::ln2;
  // The angle 2 pi block[1] / 2^32 as quarter turns and a rest of at most an eighth of a turn
  const std::uint32_t quarter = (block[1] + 0x20000000u) >> 30;
  const double rest =
      static_cast<double>(static_cast<std::int32_t>(block[1] - (quarter << 30))) * (2.0 * std::numbers::pi * 0x1.0p-32);
  const double x2 = rest * rest;
  double cosine = 1.0;
  for (int n = 16; n >= 2; n -= 2) cosine = 1.0 - x2 * (1.0 / (n * (n - 1))) * cosine;
  double sine = 1.0;
  for (int n = 17; n >= 3; n -= 2) sine = 1.0 - x2 * (1.0 / (n * (n - 1))) * sine;
  sine *= rest;
  const bool swapped = (quarter & 1u) != 0;
  const double c = swapped ? -sine : cosine;
  const double d = swapped ? cosine : sine;
  const bool negative = (quarter & 2u) != 0;
  return {.square = -2.0 * log_u, .cosine = negative ? -c : c, .sine = negative ? -d : d};
}

inline std::pair<float, float> normal_pair_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t pair) {
  const NormalPair parts = normal_pair_parts(seed, stream, pair);
  const double radius = std::sqrt(parts.square);
  return {static_cast<float>(radius * parts.cosine), static_cast<float>(radius * parts.sine)};
}

// The index-th value of N(0, 1) in stream `stream` of `seed`.
inline float normal_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto [even, odd] = normal_pair_at(seed, stream, index / 2);
  return index % 2 == 0 ? even : odd;
}

// The index-th 64 random bits of stream `stream` of `seed`.
constexpr std::uint64_t bits_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const PhiloxBlock block = philox4x32(seed, stream, index);
  return (std::uint64_t{block[1]} << 32) | block[0];
}

// Uniform integer in [0, bound) by 128-bit multiplication; bias below 2^-64 * bound.
inline std::uint64_t bounded_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits_at(seed, stream, index)) * bound) >> 64);
}

}  // namespace ida
