// The widest f32 vector of the instruction set a kernel copy is compiled for. Only for sources of
// IDA_CPU_ISA_SOURCES: everything here has internal linkage on purpose, so that each copy keeps its own code.
#pragma once
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
using Vec = __m512;
#elif defined(__AVX2__)
using Vec = __m256;
#else
using Vec = float __attribute__((vector_size(16)));
#endif
constexpr std::int64_t kLanes = sizeof(Vec) / sizeof(float);

inline Vec load(const float* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
inline void store(float* to, Vec value) { __builtin_memcpy(to, &value, sizeof(value)); }
inline Vec zero() { return Vec{}; }
inline Vec broadcast(float value) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(value);
#elif defined(__AVX2__)
  return _mm256_set1_ps(value);
#else
  return Vec{value, value, value, value};
#endif
}

// a * b + c, one rounding where the instruction set has FMA.
inline Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline float bf16_bits_to_f32(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

// Nearest even, as bf16_from_f32 of formats/bf16.h, which may not be called here (it has vague linkage).
inline std::uint16_t f32_to_bf16_bits(float value) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  bits += 0x7FFFu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace
