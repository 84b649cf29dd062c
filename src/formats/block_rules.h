// How a scale follows from the largest magnitude of its group, and how an element is quantised under it: one definition
// for host and device. Compile device code that includes this with --fmad=false where its bits must be the host's.
//
// A group that holds NaN or infinity gets the NaN scale, so it decodes to NaN as a whole: nothing that is not finite
// becomes finite in silence (but an infinity that fp8_tensor's given amax does not know of: docs/formats.md). Magnitudes
// travel as their bits (`Amax`), whose unsigned maximum keeps NaN and infinity. Source of the rules: docs/formats.md.
#pragma once
#include <array>

#include "base/rng.h"
#include "formats/quant_format.h"

namespace ida::formats {

using Amax = std::uint32_t;  // bits of the largest |x|
inline constexpr Amax kAmaxInfinity = 0x7F800000u;
constexpr Amax magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }
constexpr bool is_finite(Amax amax) { return amax < kAmaxInfinity; }

inline constexpr float kNanF32 = std::bit_cast<float>(0x7FC00000u);
inline constexpr float kMaxF32 = std::bit_cast<float>(0x7F7FFFFFu);

// floor(log2(amax)) of a finite amax that is not 0, and the bits of amax / 2^that - 1.
struct Binade {
  int exponent = 0;
  std::uint32_t mantissa = 0;
};
constexpr Binade binade(Amax amax) {
  int shift = 0;
  if (amax < 0x00800000u) {  // subnormal
    amax = std::bit_cast<std::uint32_t>(std::bit_cast<float>(amax) * 0x1p24f);
    shift = 24;
  }
  return {.exponent = static_cast<int>(amax >> 23) - 127 - shift, .mantissa = amax & 0x7FFFFFu};
}

// The e with amax / 2^e as the rule wants it.
constexpr int scale_exponent(Amax amax, Element element, ScaleRule rule) {
  const Binade b = binade(amax);
  const std::uint32_t max_mantissa = std::bit_cast<std::uint32_t>(element_max(element)) & 0x7FFFFFu;
  return b.exponent - element_max_exponent(element) + (rule == ScaleRule::kCeil && b.mantissa > max_mantissa ? 1 : 0);
}

// MX: the ue8m0 byte. A block of zeros: byte 0.
constexpr std::uint8_t mx_scale(Amax amax, Element element, ScaleRule rule) {
  if (!is_finite(amax)) return Ue8m0::kNanCode;
  if (amax == 0) return 0;
  const int e = scale_exponent(amax, element, rule);
  return static_cast<std::uint8_t>((e < Ue8m0::kMinExponent   ? Ue8m0::kMinExponent
                                    : e > Ue8m0::kMaxExponent ? Ue8m0::kMaxExponent
                                                              : e) +
                                   127);
}
// What an element is multiplied with: 2^-e, exact; 0 under the NaN scale.
constexpr float mx_encode_factor(std::uint8_t scale) { return scale == Ue8m0::kNanCode ? 0.0f : exp2_f32(127 - scale); }

// FP8 with f32 scales: an element is encoded from x * encode (one f32 product), decoded as element * decode.
struct F32Scale {
  float encode = 1.0f;
  float decode = 1.0f;
};
constexpr F32Scale f32_scale(Amax amax, Element element, bool power_of_two) {
  if (!is_finite(amax)) return {.encode = 0.0f, .decode = kNanF32};
  if (amax == 0) return {};
  if (power_of_two) {
    const int e = scale_exponent(amax, element, ScaleRule::kCeil);
    const int clipped = e < -126 ? -126 : e > 126 ? 126 : e;
    return {.encode = exp2_f32(-clipped), .decode = exp2_f32(clipped)};
  }
  const float encode = element_max(element) / std::bit_cast<float>(amax);
  if (encode > kMaxF32) return {.encode = kMaxF32, .decode = 1.0f / kMaxF32};
  float decode = std::bit_cast<float>(amax) / element_max(element);
  // Near f32's end the rounded quotient must not make the largest element infinite.
  if (decode * element_max(element) > kMaxF32) decode = std::bit_cast<float>(std::bit_cast<std::uint32_t>(decode) - 1u);
  return {.encode = encode, .decode = decode};
}

// NVFP4's tensor scale: largest block scale and element together are 448 * 6; 256 * 6 where a block may map to 4, whose
// scale is 1.5 times as large. A tensor of zeros: 0.
constexpr float nvfp4_tensor_scale(Amax amax, const QuantFormat& format) {
  if (!format.two_level) return 1.0f;
  if (!is_finite(amax)) return kNanF32;
  return std::bit_cast<float>(amax) / (format.four_over_six ? 1536.0f : 2688.0f);
}

// NVFP4's block scale: e4m3 of f32(amax / mapped_max / tensor_scale), quotients in f64; `mapped_max` is 6, or 4.
constexpr std::uint8_t nvfp4_block_scale(Amax amax, float tensor_scale, float mapped_max) {
  if (!is_finite(amax) || !is_finite(magnitude_bits(tensor_scale))) return E4m3::kNanCode;
  if (amax == 0 || tensor_scale == 0.0f) return 0;
  const double scale =
      static_cast<double>(std::bit_cast<float>(amax)) / static_cast<double>(mapped_max) / static_cast<double>(tensor_scale);
  return encode_nearest<E4m3>(static_cast<float>(scale));
}

// NVFP4, nearest: f32(x / (scale * tensor_scale)), product and quotient in f64. A scale of 0 or NaN: 0 without sign.
constexpr std::uint8_t nvfp4_code_nearest(float x, std::uint8_t scale, float tensor_scale) {
  if (scale == 0 || scale == E4m3::kNanCode) return 0;
  const double divisor = static_cast<double>(decode<E4m3>(scale)) * static_cast<double>(tensor_scale);
  return encode_nearest<E2m1>(static_cast<float>(static_cast<double>(x) / divisor));
}

// NVFP4, stochastic: the element is drawn from x * this, one f32 product.
constexpr float nvfp4_encode_factor(std::uint8_t scale, float tensor_scale) {
  if (scale == 0 || scale == E4m3::kNanCode) return 0.0f;
  const float factor = 1.0f / (decode<E4m3>(scale) * tensor_scale);
  return factor <= kMaxF32 ? factor : kMaxF32;
}

// Random bits of element `index` (row * k + column of the quantised matrix) of a tensor in a step, for encode_stochastic:
// 16 bits from Philox4x32 with 7 rounds (its authors' smallest that passes BigCrush), centred, so the draw is unbiased to
// 2^-17 of the gap.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;  // which tensor, and whether its rows or its columns are quantised
  std::uint64_t step = 0;
};
inline constexpr int kRandomElems = 8;  // elements that share a draw of the generator
constexpr PhiloxBlock random_block(const RandomKey& key, std::uint64_t group) {
  return philox4x32<7>(key.seed ^ (key.tensor * 0x9E3779B97F4A7C15u), key.step, group);
}
constexpr std::uint32_t random_of_block(const PhiloxBlock& block, int lane) {
  return (block[static_cast<std::size_t>(lane / 2)] >> (lane % 2 * 16)) << 16 | 0x8000u;
}
constexpr std::uint32_t random_bits(const RandomKey& key, std::uint64_t index) {
  return random_of_block(random_block(key, index / kRandomElems), static_cast<int>(index % kRandomElems));
}

// Power-of-two prescale of a tensor: 2^round(log2(4 / amax)), clipped so that factor and inverse are normal numbers; 1 for
// a tensor of zeros or one that is not finite. log2 rounds at sqrt(2).
constexpr int prescale_exponent(Amax amax) {
  if (!is_finite(amax) || amax == 0) return 0;
  const Binade b = binade(amax);
  constexpr std::uint32_t kSqrt2Mantissa = 0x3504F3u;  // of the largest f32 below sqrt(2)
  const int e = 2 - b.exponent - (b.mantissa > kSqrt2Mantissa ? 1 : 0);
  return e < -126 ? -126 : e > 126 ? 126 : e;
}

// Signs of the randomised Hadamard transform, bit i set where element i is negated. Fixed ones: those of TransformerEngine.
inline constexpr std::uint16_t kHadamardSigns = 0xD7E8u;
// Seeded ones belong to a step, not to a tensor: both operands of a product must have the same.
constexpr std::uint16_t hadamard_signs(std::uint64_t seed, std::uint64_t step) {
  return static_cast<std::uint16_t>(philox4x32(seed, step, 0)[0]);
}
// x <- H16 diag(signs) x / 4, in f32, butterflies of stride 1, 2, 4, 8. Orthogonal: its inverse is diag(signs) H16 / 4.
constexpr void hadamard16(float* x, std::uint16_t signs) {
  for (int i = 0; i < 16; ++i)
    if ((signs >> i & 1u) != 0) x[i] = -x[i];
  for (int stride = 1; stride < 16; stride *= 2) {
    for (int i = 0; i < 16; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
  for (int i = 0; i < 16; ++i) x[i] *= 0.25f;
}

}  // namespace ida::formats
