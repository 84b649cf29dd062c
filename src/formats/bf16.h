// bfloat16: 1 sign, 8 exponent, 7 mantissa bits; the upper half of an IEEE binary32.
#pragma once
#include <bit>
#include <cstdint>

namespace ida {

struct bf16 {
  std::uint16_t bits;
};
static_assert(sizeof(bf16) == 2);

constexpr float to_f32(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
constexpr float to_f32(float value) { return value; }

// Round to nearest, ties to even; overflow goes to infinity; NaN stays NaN (quiet, sign kept).
constexpr bf16 bf16_from_f32(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};
  bits += 0x7FFFu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

template <typename T>
constexpr T from_f32(float value);
template <>
constexpr float from_f32<float>(float value) {
  return value;
}
template <>
constexpr bf16 from_f32<bf16>(float value) {
  return bf16_from_f32(value);
}

}  // namespace ida
