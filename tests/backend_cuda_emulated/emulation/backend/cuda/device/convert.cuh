// Emulated: by the definitions of the formats.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cfenv>

#include "formats/bf16.h"
#include "formats/f16.h"
#include "formats/minifloat.h"

namespace ida::cuda {

template <typename F>
std::uint32_t cvt_fp8(float x) {
  return std::isnan(x) ? 0x7Fu : formats::encode_nearest<F>(x);
}
template <typename F>
std::uint32_t cvt_fp8x2(float low, float high) {
  return cvt_fp8<F>(high) << 8 | cvt_fp8<F>(low);
}

inline std::uint32_t f16_bits(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return 0x7FFFu;
  if (magnitude >= 65520.0f) return sign | 0x7C00u;
  if (magnitude < 0x1p-14f) {
    // In steps of 2^-24: adding 2^23 + 2^23 rounds to an integer, after an exact product.
    return sign | static_cast<std::uint32_t>(std::nearbyint(static_cast<double>(magnitude) * 0x1p24));
  }
  const std::uint32_t m = bits & 0x7FFFFFFFu;
  return sign | (((m + 0xFFFu + (m >> 13 & 1u)) >> 13) - (112u << 10));
}
inline std::uint32_t cvt_f16x2_f32(float low, float high) { return f16_bits(high) << 16 | f16_bits(low); }
inline float f16_low(std::uint32_t packed) { return to_f32(f16{static_cast<std::uint16_t>(packed)}); }
inline float f16_high(std::uint32_t packed) { return to_f32(f16{static_cast<std::uint16_t>(packed >> 16)}); }
template <typename F>
std::uint32_t cvt_f16x2(std::uint32_t codes) {
  return cvt_f16x2_f32(formats::decode<F>(codes & 0xFFu), formats::decode<F>(codes >> 8 & 0xFFu));
}
inline std::uint32_t clamp_f16x2(std::uint32_t x, std::uint32_t bound) {
  const auto half = [](std::uint32_t h, std::uint32_t b) {
    return (h & 0x7FFFu) > 0x7C00u ? b : (h & 0x8000u) | std::min(h & 0x7FFFu, b);
  };
  return half(x >> 16, bound >> 16) << 16 | half(x & 0xFFFFu, bound & 0xFFFFu);
}
inline std::uint32_t max_magnitude_bf16x2(std::uint32_t a, std::uint32_t b) {
  a &= 0x7FFF7FFFu;
  b &= 0x7FFF7FFFu;
  return std::max(a >> 16, b >> 16) << 16 | std::max(a & 0xFFFFu, b & 0xFFFFu);
}
inline std::uint32_t magnitude_above_bf16x2(std::uint32_t x, std::uint32_t bound) {
  const auto one = [](std::uint32_t h, std::uint32_t b) {
    const float m = to_f32(bf16{static_cast<std::uint16_t>(h & 0x7FFFu)});
    return m > to_f32(bf16{static_cast<std::uint16_t>(b)}) ? 0x3F80u : 0u;
  };
  return one(x >> 16, bound >> 16) << 16 | one(x, bound);
}
inline std::uint32_t add_bf16x2(std::uint32_t a, std::uint32_t b) {
  const auto sum = [](std::uint32_t x, std::uint32_t y) {
    return static_cast<std::uint32_t>(
        bf16_from_f32(to_f32(bf16{static_cast<std::uint16_t>(x)}) + to_f32(bf16{static_cast<std::uint16_t>(y)})).bits);
  };
  return sum(a >> 16, b >> 16) << 16 | sum(a, b);
}
inline float cvt_f32_down(double x) {
  const float nearest = static_cast<float>(x);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? std::nextafter(nearest, 0.0f) : nearest;
}
inline float max_magnitude(float a, float b) {
  return std::bit_cast<float>(
      std::max(std::bit_cast<std::uint32_t>(a) & 0x7FFFFFFFu, std::bit_cast<std::uint32_t>(b) & 0x7FFFFFFFu));
}
inline std::uint32_t warp_max_u32(std::uint32_t x) {
  for (int offset = 16; offset > 0; offset /= 2) x = std::max(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}
inline std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<std::uint32_t>(bytes >> (selector >> 4 * i & 7u) * 8 & 0xFFu) << 8 * i;
  return result;
}
inline float mul_up(float a, float b) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  const float nearest = static_cast<float>(exact);
  return static_cast<double>(nearest) < exact ? std::nextafter(nearest, INFINITY) : nearest;
}

}  // namespace ida::cuda
