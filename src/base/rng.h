// Counter-based random numbers: a value is a pure function of (seed, stream, index), so nothing depends on
// thread count, call order or how often a step was replayed.
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), Philox4x32-10.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

namespace ida {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(std::uint64_t key, std::uint64_t counter_hi, std::uint64_t counter_lo) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock c = {static_cast<std::uint32_t>(counter_lo), static_cast<std::uint32_t>(counter_lo >> 32),
                   static_cast<std::uint32_t>(counter_hi), static_cast<std::uint32_t>(counter_hi >> 32)};
  for (int round = 0; round < 10; ++round) {
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

// Values 2 * pair and 2 * pair + 1 of N(0, 1) in stream `stream` of `seed` (Box-Muller).
inline std::pair<float, float> normal_pair_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t pair) {
  const PhiloxBlock block = philox4x32(seed, stream, pair);
  const double u = (static_cast<double>(block[0]) + 1.0) * 0x1.0p-32;  // (0, 1]
  const double v = static_cast<double>(block[1]) * 0x1.0p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
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
