// Floating-point formats of 8 bits and fewer, one definition for host and device. A code is sign, exponent, mantissa from
// the top; e2m1 lies in the low 4 bits of its byte.
// Sources: OCP Microscaling Formats v1.0, sections 5.3 and 5.4; OCP 8-bit Floating Point v1.0.
#pragma once
#include <bit>
#include <cstdint>

namespace ida::formats {

// Finite values only but for one NaN a sign; largest 448.
struct E4m3 {
  static constexpr int kExponentBits = 4;
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int kMaxExponent = 8;  // floor(log2(kMax))
  static constexpr float kMax = 448.0f;
  static constexpr std::uint8_t kMaxCode = 0x7E;
  static constexpr std::uint8_t kNanCode = 0x7F;
};

// IEEE-like, with infinities; largest 57344.
struct E5m2 {
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr int kMaxExponent = 15;
  static constexpr float kMax = 57344.0f;
  static constexpr std::uint8_t kMaxCode = 0x7B;
  static constexpr std::uint8_t kNanCode = 0x7F;
};

// 0, .5, 1, 1.5, 2, 3, 4, 6; neither NaN nor infinity, so a NaN becomes 6 and must be kept by the scale (block_rules.h).
struct E2m1 {
  static constexpr int kExponentBits = 2;
  static constexpr int kMantissaBits = 1;
  static constexpr int kBias = 1;
  static constexpr int kMaxExponent = 2;
  static constexpr float kMax = 6.0f;
  static constexpr std::uint8_t kMaxCode = 0x7;
  static constexpr std::uint8_t kNanCode = kMaxCode;
};

template <typename F>
inline constexpr int kSignShift = F::kExponentBits + F::kMantissaBits;

// 2^exponent for -149 <= exponent <= 127.
constexpr float exp2_f32(int exponent) {
  return exponent >= -126 ? std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23)
                          : std::bit_cast<float>(std::uint32_t{1} << (exponent + 149));
}

template <typename F>
constexpr float decode(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code >> kSignShift<F>) << 31;
  const std::uint32_t magnitude = code & ((1u << kSignShift<F>)-1u);
  const std::uint32_t exponent = magnitude >> F::kMantissaBits;
  const std::uint32_t mantissa = magnitude & ((1u << F::kMantissaBits) - 1u);
  std::uint32_t bits = 0;
  if (magnitude > F::kMaxCode) {  // e5m2 alone has a code between the largest value and the NaNs: infinity
    const bool infinite = magnitude == F::kMaxCode + 1u && F::kNanCode > F::kMaxCode + 1u;
    bits = infinite ? 0x7F800000u : 0x7FC00000u;
  } else if (exponent == 0) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * exp2_f32(1 - F::kBias - F::kMantissaBits));
  } else {
    bits = (exponent + 127u - F::kBias) << 23 | mantissa << (23 - F::kMantissaBits);
  }
  return std::bit_cast<float>(sign | bits);
}

namespace detail {

// Code of a magnitude that is at least the smallest normal number and at most kMax; `add` is what is added to the dropped
// bits before they are cut off. A carry runs into the exponent, as it must.
template <typename F>
constexpr std::uint32_t normal_code(std::uint32_t magnitude_bits, std::uint32_t add) {
  constexpr int kDropped = 23 - F::kMantissaBits;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - F::kBias) << F::kMantissaBits;
  return ((magnitude_bits + add) >> kDropped) - kRebias;
}

template <typename F>
constexpr std::uint8_t with_sign(std::uint32_t code, std::uint32_t bits) {
  return static_cast<std::uint8_t>(code | (bits >> 31) << kSignShift<F>);
}

}  // namespace detail

// Nearest, ties to even; what is larger than kMax becomes kMax; the sign is kept, that of zero too. NaN: the NaN code,
// positive, as conversion instructions give it.
template <typename F>
constexpr std::uint8_t encode_nearest(float x) {
  constexpr int kDropped = 23 - F::kMantissaBits;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return F::kNanCode;
  if (magnitude >= std::bit_cast<std::uint32_t>(F::kMax)) return detail::with_sign<F>(F::kMaxCode, bits);
  if (magnitude < std::bit_cast<std::uint32_t>(exp2_f32(1 - F::kBias))) {
    // Steps of the smallest subnormal; at most 2^kMantissaBits of them, so adding 2^23 rounds to an integer.
    const float steps = std::bit_cast<float>(magnitude) * exp2_f32(F::kBias - 1 + F::kMantissaBits);
    return detail::with_sign<F>(std::bit_cast<std::uint32_t>(steps + 0x1p23f) & 0xFFu, bits);
  }
  const std::uint32_t even = (magnitude >> kDropped) & 1u;
  const std::uint32_t code = detail::normal_code<F>(magnitude, (1u << (kDropped - 1)) - 1u + even);
  return detail::with_sign<F>(code > F::kMaxCode ? F::kMaxCode : code, bits);
}

// One of the two neighbours of x, the upper in magnitude with the probability of x's place between them, to 2^-19 of the
// gap or better; `random` is uniform over 32 bits. Saturation, sign and NaN as above.
template <typename F>
constexpr std::uint8_t encode_stochastic(float x, std::uint32_t random) {
  constexpr int kDropped = 23 - F::kMantissaBits;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return F::kNanCode;
  if (magnitude >= std::bit_cast<std::uint32_t>(F::kMax)) return detail::with_sign<F>(F::kMaxCode, bits);
  if (magnitude < std::bit_cast<std::uint32_t>(exp2_f32(1 - F::kBias))) {
    const float steps = std::bit_cast<float>(magnitude) * exp2_f32(F::kBias - 1 + F::kMantissaBits);
    const auto whole = static_cast<std::uint32_t>(steps);
    const bool up = static_cast<float>(random >> 8) * 0x1p-24f < steps - static_cast<float>(whole);
    return detail::with_sign<F>(whole + (up ? 1u : 0u), bits);
  }
  return detail::with_sign<F>(detail::normal_code<F>(magnitude, random >> (32 - kDropped)), bits);
}

// Scales of MX blocks: 2^(byte - 127), 255 is NaN. Byte 0 is 2^-127, not 0.
struct Ue8m0 {
  static constexpr std::uint8_t kNanCode = 0xFF;
  static constexpr int kMinExponent = -127;
  static constexpr int kMaxExponent = 127;
};
constexpr float decode_ue8m0(std::uint8_t code) {
  return code == Ue8m0::kNanCode ? std::bit_cast<float>(0x7FC00000u) : exp2_f32(code - 127);
}

// The code in nibble `index` of a byte that holds two: the first element lies in the low half.
constexpr std::uint8_t nibble(std::uint8_t byte, int index) { return (byte >> (4 * (index & 1))) & 0xFu; }
constexpr std::uint8_t pack_nibbles(std::uint8_t first, std::uint8_t second) {
  return static_cast<std::uint8_t>((first & 0xFu) | second << 4);
}

}  // namespace ida::formats
