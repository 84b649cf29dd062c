// MXFP8 as weights lie at rest: e4m3 codes and a ue8m0 byte for every 32 consecutive elements of the flat row-major
// tensor, whatever its rows; the last block may be shorter. Source: the model cards of files with
// `weights_dtype = MXFP8_E4M3_UE8M0_K32`. It differs from the block format mxfp8 of products in three points: blocks do not
// end with a row, exponents start at -126, and byte 0 means 1e-30.
#pragma once
#include "formats/block_rules.h"

namespace ida::formats {

inline constexpr std::int64_t kFlatBlock = 32;
inline constexpr std::string_view kMxfp8FlatName = "MXFP8_E4M3_UE8M0_K32";

constexpr std::int64_t mxfp8_flat_scales(std::int64_t size) { return (size + kFlatBlock - 1) / kFlatBlock; }

// The smallest power of two that saturates nothing; 0 for a block of zeros, and for one that holds NaN or infinity.
constexpr std::uint8_t mxfp8_flat_scale(Amax amax) {
  if (!is_finite(amax) || amax == 0) return 0;
  const int e = scale_exponent(amax, Element::kE4m3, ScaleRule::kCeil);
  return static_cast<std::uint8_t>((e < -126 ? -126 : e) + 127);
}

// max(2^(byte - 127), 1e-30), which counts for bytes under 28. Byte 255 is never written; callers refuse it.
constexpr float mxfp8_flat_factor(std::uint8_t scale) {
  const float factor = decode_ue8m0(scale);
  return factor < 1e-30f ? 1e-30f : factor;
}

// Nearest even, saturating; what is not finite becomes the NaN code with its sign.
constexpr std::uint8_t mxfp8_flat_code(float x, float factor) {
  if (!is_finite(magnitude_bits(x)))
    return static_cast<std::uint8_t>(E4m3::kNanCode | std::bit_cast<std::uint32_t>(x) >> 31 << 7);
  return encode_nearest<E4m3>(x / factor);
}

}  // namespace ida::formats
