// One vector register of f32 for the instruction set a kernel copy is compiled for, its loads and stores in f32 and
// bf16, exp. Only for sources of IDA_CPU_ISA_SOURCES: everything has internal linkage, so that each copy keeps its own.
//
// bf16 is storage: loads widen to f32, stores round to nearest even (the rule of formats/bf16.h).
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "formats/bf16.h"

namespace {

using ida::bf16;

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

using F32 __attribute__((vector_size(4 * kWidth))) = float;
using I32 __attribute__((vector_size(4 * kWidth))) = std::int32_t;
using U32 __attribute__((vector_size(4 * kWidth))) = std::uint32_t;
using U16 __attribute__((vector_size(2 * kWidth))) = std::uint16_t;

constexpr float kInfinity = __builtin_inff();

// How many lanes of a vector are in memory: all, or the first `count` (others read as 0 and are not written).
struct Full {};
struct Part {
  int count;
};

inline F32 broadcast(float x) { return x - F32{}; }
inline F32 as_float(U32 bits) { return reinterpret_cast<F32>(bits); }
inline U32 as_bits(F32 x) { return reinterpret_cast<U32>(x); }

inline F32 load(const float* p, Full = {}) {
  F32 v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline F32 widen(U16 raw) { return as_float(__builtin_convertvector(raw, U32) << 16); }
inline F32 load(const bf16* p, Full = {}) {
  U16 raw;
  __builtin_memcpy(&raw, p, sizeof(raw));
  return widen(raw);
}
inline F32 load(const float* p, Part part) {
  F32 v{};
  __builtin_memcpy(&v, p, static_cast<std::size_t>(part.count) * 4);
  return v;
}
inline F32 load(const bf16* p, Part part) {
  U16 raw{};
  __builtin_memcpy(&raw, p, static_cast<std::size_t>(part.count) * 2);
  return widen(raw);
}

inline U16 narrow(F32 x) {
  const U32 bits = as_bits(x);
  const U32 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const U32 quiet = (bits >> 16) | 0x40u;
  return __builtin_convertvector((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded, U16);
}
inline void store(float* p, F32 x, Full = {}) { __builtin_memcpy(p, &x, sizeof(x)); }
inline void store(bf16* p, F32 x, Full = {}) {
  const U16 raw = narrow(x);
  __builtin_memcpy(p, &raw, sizeof(raw));
}
inline void store(float* p, F32 x, Part part) { __builtin_memcpy(p, &x, static_cast<std::size_t>(part.count) * 4); }
inline void store(bf16* p, F32 x, Part part) {
  const U16 raw = narrow(x);
  __builtin_memcpy(p, &raw, static_cast<std::size_t>(part.count) * 2);
}

// a * b + c: fused where the instruction set has it. The scalar form gives the bits of one lane of the vector form.
inline F32 fma(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
inline float fma_scalar(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline F32 square_root(F32 x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xFFFF, x);  // the form without mask draws a false warning from g++ 12
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_sqrt_ps(x);
#else
  for (int i = 0; i < kWidth; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// Where either is NaN the result is b.
inline F32 max(F32 a, F32 b) { return a > b ? a : b; }

inline float reduce_add(F32 x) {
  float lane[kWidth];
  store(lane, x);
  for (int half = kWidth / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}
inline float reduce_max(F32 x) {
  float lane[kWidth];
  store(lane, x);
  float best = lane[0];
  for (int i = 1; i < kWidth; ++i) best = lane[i] > best ? lane[i] : best;
  return best;
}

// 2^n for integral n in [-127, 127] held in the low bits of `biased` = n + 1.5 * 2^23; 2^-127 gives 0.
constexpr float kRoundingBias = 12582912.0f;
inline F32 exponent_of(F32 biased) { return as_float((as_bits(biased) << 23) + 0x3F800000u); }

// 2^x for x <= 0: at most 2 ulp, exactly 1 at 0, 0 below 2^-126.5 and at -inf, NaN for NaN.
// Degree 6 minimax polynomial on [-1/2, 1/2], constant term fixed at 1 (relative error 2.0e-9 before rounding).
inline F32 exp2_nonpositive(F32 x) {
  x = max(broadcast(-127.0f), x);
  const F32 biased = x + kRoundingBias;
  const F32 r = x - (biased - kRoundingBias);
  F32 p = fma(broadcast(0x1.41fb2ep-13f), r, broadcast(0x1.5f3f30p-10f));
  p = fma(p, r, broadcast(0x1.3b2d50p-7f));
  p = fma(p, r, broadcast(0x1.c6aee6p-5f));
  p = fma(p, r, broadcast(0x1.ebfbdcp-3f));
  p = fma(p, r, broadcast(0x1.62e430p-1f));
  p = fma(p, r, broadcast(1.0f));
  return p * exponent_of(biased);
}

// e^x for x <= 0: at most 2 ulp, exactly 1 at 0, 0 below about -87.7 and at -inf, NaN for NaN. Cody and Waite
// reduction by ln 2 in two parts; degree 6 minimax polynomial with the terms 1 + r fixed (relative error 3.1e-9).
inline F32 exp_nonpositive(F32 x) {
  x = max(broadcast(-88.02f), x);
  const F32 biased = fma(x, broadcast(0x1.715476p+0f), broadcast(kRoundingBias));
  const F32 n = biased - kRoundingBias;
  F32 r = fma(n, broadcast(-0x1.62e400p-1f), x);
  r = fma(n, broadcast(-0x1.7f7d1cp-20f), r);
  F32 p = fma(broadcast(0x1.6a2356p-10f), r, broadcast(0x1.123a6ap-7f));
  p = fma(p, r, broadcast(0x1.5558f4p-5f));
  p = fma(p, r, broadcast(0x1.555490p-3f));
  p = fma(p, r, broadcast(0x1.fffffcp-2f));
  p = fma(p * r, r, r) + 1.0f;
  return p * exponent_of(biased);
}

// Calls body(offset, Full{}) for whole vectors of [0, n), then body(offset, Part{rest}).
template <typename Body>
inline void for_vectors(std::int64_t n, Body&& body) {
  std::int64_t c = 0;
  for (; c + kWidth <= n; c += kWidth) body(c, Full{});
  if (c < n) body(c, Part{static_cast<int>(n - c)});
}

// Sum over [0, n) of term(offset, lanes), a vector whose lanes outside `lanes` are 0: four partial vectors, added in
// a fixed order.
template <typename Term>
inline float sum_vectors(std::int64_t n, Term&& term) {
  F32 sum[4] = {};
  std::int64_t c = 0;
  for (; c + 4 * kWidth <= n; c += 4 * kWidth) {
    for (int i = 0; i < 4; ++i) sum[i] += term(c + i * kWidth, Full{});
  }
  for (int i = 0; c + kWidth <= n; c += kWidth, ++i) sum[i] += term(c, Full{});
  if (c < n) sum[3] += term(c, Part{static_cast<int>(n - c)});
  return reduce_add((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

}  // namespace
