// Eight elements at a time to codes, in few instructions and in the bits of formats/block_rules.h.
//
// e2m1 has no conversion on sm_90. A magnitude q times the power of two that takes the format's smallest normal number to
// f32's (or f16's) has bits that count the format's steps, below that number and above it: rounding is one addition.
#pragma once
#include "backend/cuda/device/arithmetic.cuh"
#include "backend/cuda/device/convert.cuh"
#include "backend/cuda/kernels/quantize_matrix.cuh"

namespace ida::cuda {

inline constexpr int kVecCodes = 8;  // elements of a 16-byte access to bf16

template <typename E>
inline constexpr bool kIsE2m1 = E::kExponentBits == 2;
template <typename E>
inline constexpr int kCodeWords = kIsE2m1<E> ? 1 : 2;  // of eight codes

// What a block's elements need. `exact`: by the definition, not by the factor.
struct TileScale {
  float factor = 0.0f;
  float tensor_scale = 1.0f;  // NVFP4
  std::uint32_t byte = 0;     // MX, NVFP4
  float decode = 1.0f;        // the others
  bool exact = false;
};

__device__ inline float bits_f32(std::uint32_t bits) { return std::bit_cast<float>(bits); }
__device__ inline std::uint32_t f32_bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// Bits of `a` where the mask has ones, of `b` where it has zeros.
__device__ inline std::uint32_t select_bits(std::uint32_t mask, std::uint32_t a, std::uint32_t b) {
  return (a & mask) | (b & ~mask);
}

// The top bytes of four words, the first lowest.
__device__ inline std::uint32_t top_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return permute_bytes(permute_bytes(a, b, 0x0073), permute_bytes(c, d, 0x0073), 0x5410);
}

// Eight e2m1 codes; count[i] holds the steps of |x[i]| from bit 22 on.
__device__ inline std::uint32_t pack_counts(const std::uint32_t* count, const float* x) {
  std::uint32_t pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t codes = select_bits(0x0F000000u, count[2 * i] << 2, count[2 * i + 1] << 6);
    const std::uint32_t signs = select_bits(0x0F000000u, f32_bits(x[2 * i]) >> 4, f32_bits(x[2 * i + 1]));
    pair[i] = select_bits(0x77000000u, codes, signs);
  }
  return top_bytes(pair[0], pair[1], pair[2], pair[3]);
}

// Ties decided in f16: for quotients that are a tie or 2^-8 of it away, as those of bf16 by a power of two or an e4m3 are.
__device__ inline std::uint32_t e2m1_of_short(const float* x, float factor) {
  const float f = factor * 0x1p-14f;
  std::uint32_t t[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t u = clamp_f16x2(cvt_f16x2_f32(x[2 * i] * f, x[2 * i + 1] * f), 0x0E000E00u);
    t[i] = u + 0x00FF00FFu + (u >> 9 & 0x00010001u);
  }
  const std::uint32_t p = permute_bytes(t[0], t[1], 0x7351);
  const std::uint32_t q = permute_bytes(t[2], t[3], 0x7351);
  const std::uint32_t even = permute_bytes(p, q, 0x5410);
  const std::uint32_t odd = permute_bytes(p, q, 0x7632);
  const std::uint32_t low = select_bits(0x07070707u, even >> 1, even >> 4);
  const std::uint32_t high = select_bits(0x70707070u, odd << 3, odd);
  return select_bits(0x0F0F0F0Fu, low, high);
}

// Whether f32(x / divisor), next to the tie `t` between the codes `low` and `low + 1`, is the upper one: as the definition
// has it, without its division. x - t * divisor is exact in f64, and no quotient lies on the edge of what rounds to t,
// since the edge has more bits than x can make.
__device__ inline bool rounds_up_at(double x, double divisor, float t, std::uint32_t low) {
  const double delta = fma(-static_cast<double>(t), divisor, x);
  const double above = static_cast<double>(bits_f32(f32_bits(t) & 0x7F800000u)) * 0x1p-24 * divisor;
  const double below = (f32_bits(t) & 0x7FFFFFu) == 0 ? 0.5 * above : above;
  return delta > above || (delta >= -below && (low & 1u) != 0);
}

// NVFP4's code of a magnitude whose quotient lies next to the tie above code `low`.
__attribute__((noinline)) __device__ inline std::uint32_t nvfp4_code_at_tie(float x, std::uint32_t low, std::uint32_t byte,
                                                                            float tensor_scale) {
  const float t = low < 4 ? 0.25f + 0.5f * static_cast<float>(low) : low == 4 ? 2.5f : low == 5 ? 3.5f : 5.0f;
  const double divisor = static_cast<double>(bits_f32(byte << 20) * 0x1p120f) * static_cast<double>(tensor_scale);
  return low + (rounds_up_at(static_cast<double>(x), divisor, t, low) ? 1u : 0u);
}

// Eight values that a function outside the fast path gets by value. Such functions are not inlined and loop: their code,
// eight times over and for every vector, would not stay in the instruction cache.
struct Eight {
  float at[kVecCodes];
};

// Steps of e2m1 (half a unit of the smallest normal number) from bit 22 on, and how near a tie they come.
constexpr std::uint32_t kHalfStep = 0x200000u;
constexpr std::uint32_t kTieWindow = 8;  // units of the last place: the factor is off by 2, the product by half
__device__ inline std::uint32_t e2m1_steps(float x, float factor) {
  const std::uint32_t q = f32_bits(fabsf(x * factor) * 0x1p-126f);
  return q < 7u << 22 ? q : 7u << 22;
}
__device__ inline std::uint32_t tie_distance(std::uint32_t steps) { return (steps - (kHalfStep - kTieWindow)) * 1024u; }
constexpr std::uint32_t kNearTie = 2 * kTieWindow * 1024u;

// Eight e2m1 codes by the definition.
__attribute__((noinline)) __device__ inline std::uint32_t e2m1_word_exact(Eight x, TileScale s, bool by_quotient) {
  std::uint32_t word = 0;
#pragma unroll 1
  for (int i = 0; i < kVecCodes; ++i) {
    const std::uint32_t code = by_quotient
                                   ? formats::nvfp4_code_nearest(x.at[i], static_cast<std::uint8_t>(s.byte), s.tensor_scale)
                                   : formats::encode_nearest<formats::E2m1>(x.at[i] * s.factor);
    word |= code << 4 * i;
  }
  return word;
}

// Any quotient: where x * factor comes near a tie, as one block in sixty of short numbers does, the definition decides.
__device__ inline std::uint32_t e2m1_of_any(const float* x, const TileScale& s, bool by_quotient) {
  std::uint32_t count[kVecCodes];
  std::uint32_t nearest = 0xFFFFFFFFu;
#pragma unroll
  for (int i = 0; i < kVecCodes; ++i) {
    const std::uint32_t steps = e2m1_steps(x[i], s.factor);
    nearest = tie_distance(steps) < nearest ? tie_distance(steps) : nearest;
    count[i] = steps + kHalfStep;
  }
  if (nearest < kNearTie && by_quotient && !s.exact) {
    // Unrolled, though that is much code: a loop over all eight was measured half as fast again.
#pragma unroll
    for (int i = 0; i < kVecCodes; ++i) {
      const std::uint32_t steps = count[i] - kHalfStep;
      if (tie_distance(steps) < kNearTie)
        count[i] = nvfp4_code_at_tie(fabsf(x[i]), steps >> 22, s.byte, s.tensor_scale) << 22;
    }
  } else if (nearest < kNearTie || s.exact) {
    return e2m1_word_exact({x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}, s, by_quotient);
  }
  return pack_counts(count, x);
}

// Eight drawn codes by the definition; `x` is scaled.
template <typename E>
__attribute__((noinline)) __device__ std::uint64_t drawn_words_exact(Eight x, uint4 random) {
  const std::uint32_t pairs[4] = {random.x, random.y, random.z, random.w};
  std::uint64_t words = 0;
#pragma unroll 1
  for (int i = 0; i < kVecCodes; ++i) {
    const std::uint32_t r = i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xFFFF0000u;
    const std::uint64_t code = formats::encode_stochastic<E>(x.at[i], r | 0x8000u);
    words |= code << i * (kIsE2m1<E> ? 4 : 8);
  }
  return words;
}

// Drawn: the random bits of two elements a word. A NaN goes the definition's way: it comes with the NaN scale's factor,
// 0, or (kNan) under an amax that did not see it. Below the smallest normal number the definition compares the other way
// round, which is the complement; a product rounded up keeps what lies beyond the last bit.
template <typename E, bool kNan>
__device__ inline void draw_codes(const float* x, const TileScale& s, const std::uint32_t* random, std::uint32_t* words) {
  constexpr int kDropped = 23 - E::kMantissaBits;
  constexpr float kToF32 = formats::exp2_f32(-126 - (1 - E::kBias));
  std::uint32_t count[kVecCodes];
  bool nan = s.factor == 0.0f;
#pragma unroll
  for (int i = 0; i < kVecCodes; ++i) {
    const float q = fabsf(x[i] * s.factor);
    if constexpr (kNan) nan = nan || q != q;
    const std::uint32_t steps = f32_bits(mul_up(q < E::kMax ? q : E::kMax, kToF32));
    const std::uint32_t r = i % 2 == 0 ? random[i / 2] & 0xFFFFu : random[i / 2] >> 16;
    const std::uint32_t add = r << (kDropped - 16) | 1u << (kDropped - 17);
    count[i] = steps + (steps < 0x00800000u ? add ^ ((1u << kDropped) - 1u) : add);
  }
  if (nan) {
    Eight scaled;
#pragma unroll
    for (int i = 0; i < kVecCodes; ++i) scaled.at[i] = x[i] * s.factor;
    const std::uint64_t exact = drawn_words_exact<E>(scaled, {random[0], random[1], random[2], random[3]});
    words[0] = static_cast<std::uint32_t>(exact);
    if constexpr (!kIsE2m1<E>) words[1] = static_cast<std::uint32_t>(exact >> 32);
  } else if constexpr (kIsE2m1<E>) {
    words[0] = pack_counts(count, x);
  } else {
#pragma unroll
    for (int i = 0; i < kVecCodes; ++i) count[i] = select_bits(0x7FFFFFFFu, count[i] << (24 - kDropped), f32_bits(x[i]));
    words[0] = top_bytes(count[0], count[1], count[2], count[3]);
    words[1] = top_bytes(count[4], count[5], count[6], count[7]);
  }
}

template <typename E>
__device__ inline void round_codes_fp8(const float* x, float factor, std::uint32_t* words) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float* v = x + 4 * i;
    words[i] = cvt_fp8x2<E>(v[0] * factor, v[1] * factor) | cvt_fp8x2<E>(v[2] * factor, v[3] * factor) << 16;
  }
}

}  // namespace ida::cuda
