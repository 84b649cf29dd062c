// NVFP4 to nearest from bf16 without a quotient: a magnitude's code is how many of its block's seven thresholds it passes.
//
// f32(x / divisor) is past the tie between two codes where x / divisor is past the middle between the tie and the f32 next
// to it (kMiddles). The middle has 25 bits and the divisor, an e4m3 by an f32, 28: their product is exact in f64, and no x
// equals it. Cut to bf16 it is the largest bf16 that stays below, and comparing takes two elements an instruction.
#pragma once
#include "backend/cuda/kernels/quantize_encode.cuh"

namespace ida::cuda {

// Two bf16 a threshold: of two columns, or one twice.
struct Thresholds {
  std::uint32_t at[7];
};

// `scale`: a block's, of finite magnitude; `tensor`: the tensor's scale over the prescale, by which x is not multiplied.
__device__ inline double nvfp4_divisor(std::uint32_t scale, double tensor) {
  return static_cast<double>(bits_f32(scale << 20) * 0x1p120f) * tensor;
}
__device__ inline Thresholds nvfp4_thresholds(double low_divisor, double high_divisor) {
  constexpr double kMiddles[7] = {0.25 + 0x1p-26, 0.75 - 0x1p-25, 1.25 + 0x1p-24, 1.75 - 0x1p-24,
                                  2.5 + 0x1p-23,  3.5 - 0x1p-23,  5.0 + 0x1p-22};
  Thresholds t;
#pragma unroll
  for (int i = 0; i < 7; ++i) {
    const std::uint32_t low = f32_bits(cvt_f32_down(kMiddles[i] * low_divisor));
    const std::uint32_t high = f32_bits(cvt_f32_down(kMiddles[i] * high_divisor));
    t.at[i] = permute_bytes(low, high, 0x7632);
  }
  return t;
}

// The codes of a pair's magnitudes in the low bits of either half: 128 has steps of 1 in bf16.
__device__ inline std::uint32_t passed(std::uint32_t pair, const Thresholds& t) {
  std::uint32_t count = 0x43004300u;
#pragma unroll
  for (int i = 0; i < 7; ++i) count = add_bf16x2(count, magnitude_above_bf16x2(pair, t.at[i]));
  return count;
}

// Two pairs' codes with their signs, two a byte, in bytes 0 and 2. `codes` and `signs` pick the bytes of a pair of words
// that hold them, in the elements' order.
__device__ inline std::uint32_t two_bytes(std::uint32_t a, std::uint32_t b, const Thresholds& t, std::uint32_t codes,
                                          std::uint32_t signs) {
  const std::uint32_t c = permute_bytes(passed(a, t), passed(b, t), codes);
  const std::uint32_t z = select_bits(0x07070707u, c, permute_bytes(a, b, signs) >> 4);
  return select_bits(0x000F000Fu, z, z >> 4);
}

// Eight elements of a row.
__device__ inline std::uint32_t e2m1_word(const std::uint32_t* pairs, const Thresholds& t) {
  const std::uint32_t low = two_bytes(pairs[0], pairs[1], t, 0x6420, 0x7531);
  const std::uint32_t high = two_bytes(pairs[2], pairs[3], t, 0x6420, 0x7531);
  return permute_bytes(low, high, 0x6420);
}

// Eight elements of two columns, a pair a row.
__device__ inline void e2m1_words(const std::uint32_t* pairs, const Thresholds& t, std::uint32_t* low,
                                  std::uint32_t* high) {
  std::uint32_t n[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) n[i] = two_bytes(pairs[2 * i], pairs[2 * i + 1], t, 0x6240, 0x7351);
  const std::uint32_t u = permute_bytes(n[0], n[1], 0x6240);
  const std::uint32_t v = permute_bytes(n[2], n[3], 0x6240);
  *low = permute_bytes(u, v, 0x5410);
  *high = permute_bytes(u, v, 0x7632);
}

}  // namespace ida::cuda
