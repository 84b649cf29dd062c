// Emulated: the conversions that device/vec.cuh takes from the toolkit.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "formats/bf16.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {ida::bf16_from_f32(x).bits}; }
inline std::uint16_t __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
