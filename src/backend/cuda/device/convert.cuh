// Conversions between f32 and small formats, two values at a time, and magnitudes of packed bf16.
#pragma once
#include <cstdint>

#include "formats/minifloat.h"

namespace ida::cuda {

// Two codes, `low` in the low byte; nearest even, saturating; a NaN becomes 0x7F. PTX ISA, "cvt"
// (.rn.satfinite.e4m3x2.f32); sm_89.
template <typename F>
__device__ __forceinline__ std::uint32_t cvt_fp8x2(float low, float high);
template <>
__device__ __forceinline__ std::uint32_t cvt_fp8x2<formats::E4m3>(float low, float high) {
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}
template <>
__device__ __forceinline__ std::uint32_t cvt_fp8x2<formats::E5m2>(float low, float high) {
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

// Two f16, exact, of two codes in the low 16 bits. PTX ISA, "cvt" (.rn.f16x2.e4m3x2); sm_89.
template <typename F>
__device__ __forceinline__ std::uint32_t cvt_f16x2(std::uint32_t codes);
template <>
__device__ __forceinline__ std::uint32_t cvt_f16x2<formats::E4m3>(std::uint32_t codes) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(packed) : "h"(static_cast<std::uint16_t>(codes)));
  return packed;
}
template <>
__device__ __forceinline__ std::uint32_t cvt_f16x2<formats::E5m2>(std::uint32_t codes) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(packed) : "h"(static_cast<std::uint16_t>(codes)));
  return packed;
}
__device__ __forceinline__ float f16_low(std::uint32_t packed) {
  float x;
  asm("{.reg .b16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, l;}" : "=f"(x) : "r"(packed));
  return x;
}
__device__ __forceinline__ float f16_high(std::uint32_t packed) {
  float x;
  asm("{.reg .b16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, h;}" : "=f"(x) : "r"(packed));
  return x;
}

// Two f32 rounded to f16, nearest even. PTX ISA, "cvt" (.rn.f16x2.f32); sm_80.
__device__ __forceinline__ std::uint32_t cvt_f16x2_f32(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Of each half, the smaller magnitude of x and `bound` (a magnitude) with the sign of x. PTX ISA, "min", "max" (.f16x2);
// sm_80.
__device__ __forceinline__ std::uint32_t clamp_f16x2(std::uint32_t x, std::uint32_t bound) {
  std::uint32_t y;
  asm("min.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(bound));
  asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(y), "r"(bound | 0x80008000u));
  return y;
}

// Of each half, the larger magnitude of two bf16; NaN if either is. PTX ISA, "max" (.NaN.bf16x2); sm_80.
__device__ __forceinline__ std::uint32_t max_magnitude_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t m;
  asm("{.reg .b32 x, y;\n abs.bf16x2 x, %1;\n abs.bf16x2 y, %2;\n max.NaN.bf16x2 %0, x, y;}" : "=r"(m) : "r"(a), "r"(b));
  return m;
}

// 1 in each half where the magnitude of x is above `bound`, else 0; a NaN is above nothing. PTX ISA, "set" (.gt.bf16x2);
// sm_90.
__device__ __forceinline__ std::uint32_t magnitude_above_bf16x2(std::uint32_t x, std::uint32_t bound) {
  std::uint32_t one;
  asm("{.reg .b32 m;\n abs.bf16x2 m, %1;\n set.gt.bf16x2.bf16x2 %0, m, %2;}" : "=r"(one) : "r"(x), "r"(bound));
  return one;
}

// Sums of halves. PTX ISA, "add" (.rn.bf16x2); sm_90.
__device__ __forceinline__ std::uint32_t add_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// Rounded towards zero, subnormal results kept. PTX ISA, "cvt" (.rz.f32.f64).
__device__ __forceinline__ float cvt_f32_down(double x) { return __double2float_rz(x); }

// The larger magnitude of two f32; NaN if either is. PTX ISA, "max" (.NaN.f32); sm_80.
__device__ __forceinline__ float max_magnitude(float a, float b) {
  float m;
  asm("{.reg .f32 x, y;\n abs.f32 x, %1;\n abs.f32 y, %2;\n max.NaN.f32 %0, x, y;}" : "=f"(m) : "f"(a), "f"(b));
  return m;
}

// The largest over the warp. PTX ISA, "redux.sync" (.max.u32); sm_80.
__device__ __forceinline__ std::uint32_t warp_max_u32(std::uint32_t x) { return __reduce_max_sync(0xffffffffu, x); }

// Bytes of a and b by selector. PTX ISA, "prmt".
__device__ __forceinline__ std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  return __byte_perm(a, b, selector);
}

// Product rounded up. PTX ISA, "mul" (.rp.f32).
__device__ __forceinline__ float mul_up(float a, float b) { return __fmul_ru(a, b); }

}  // namespace ida::cuda
