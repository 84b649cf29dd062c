// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits.
#pragma once
#include <bit>
#include <cstdint>

namespace ida {

struct f16 {
  std::uint16_t bits;
};
static_assert(sizeof(f16) == 2);

// Exact for every code; a NaN keeps its sign and payload.
constexpr float to_f32(f16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = value.bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;  // subnormal or zero
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace ida
