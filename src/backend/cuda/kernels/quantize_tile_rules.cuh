// What the tiles' two directions share: what a problem asks for, scales of blocks, codes of eight elements.
#pragma once
#include <type_traits>

#include "backend/cuda/kernels/quantize_thresholds.cuh"
#include "backend/cuda/kernels/quantize_tile.h"

namespace ida::cuda {
namespace {

using formats::ScaleGrid;

constexpr int kThreads = 256;
constexpr int kTile = kQuantizeTile;
constexpr int kVecs = kTile * kTile / kVecCodes / kThreads;  // of a thread
constexpr int kLanesARow = kTile / kVecCodes;
constexpr int kRowsATurn = kThreads / kLanesARow;
constexpr int kStrip = 32;  // rows of a thread's two columns
constexpr int kPairs = kTile / 2;
template <typename E>
constexpr formats::Element kElement = std::is_same_v<E, formats::E4m3> ? formats::Element::kE4m3 : formats::Element::kE5m2;
constexpr int kTileBytes = kTile * kTile * 2;

// How scales come about; kFixed: from an amax that is known before.
enum class Grid : std::uint8_t { kMx, kNv, kVec128, kBlock128, kFixed };

// What is done in a direction: known to the compiler, or (kAny) read from the problem.
enum class Mode : std::uint8_t { kOff, kNearest, kDrawn, kNearestTransformed, kDrawnTransformed, kAny };

template <Mode M>
__device__ bool is_drawn(const Direction& d) {
  return M == Mode::kAny ? d.out.format.rounding == formats::Rounding::kStochastic
                         : M == Mode::kDrawn || M == Mode::kDrawnTransformed;
}
template <Mode M, Grid G>
__device__ bool is_transformed(const Direction& d) {
  if constexpr (G != Grid::kMx && G != Grid::kNv) return false;
  return M == Mode::kAny ? d.out.format.hadamard != formats::Hadamard::kNone
                         : M == Mode::kNearestTransformed || M == Mode::kDrawnTransformed;
}

// What is the same for a direction's whole tile.
struct Rules {
  float prescale = 1.0f;
  bool prescaled = false;
  bool power_of_two = false;
  bool two_level = false;
  std::uint32_t carry = 0;  // MX: added to an amax, carries where the rule rounds its exponent up
  float tensor_scale = 1.0f;
  float inverse = 0.0f;   // NVFP4: 1 / (6 * tensor scale)
  double unscaled = 1.0;  // NVFP4: the tensor's scale over the prescale
  bool exact = false;     // no short cuts: out of the range of f32 quotients
  formats::RandomKey key;
  std::uint16_t signs = 0;
};

// What of a tile lies within the matrix, from its first row and column on.
struct Extent {
  int rows = kTile;
  int cols = kTile;
  __device__ bool has(int row, int col) const { return row < rows && col < cols; }
};
__device__ inline int extent_of(std::int64_t first, std::int64_t size) {
  return size - first < kTile ? static_cast<int>(size - first) : kTile;
}

// The block's shared memory beside tile and random bits.
struct alignas(16) Shared {
  std::uint8_t scales[2][kTile * 8];  // of rows, of columns: [128, scales of a row in the tile]
  float encode[2][kTile];             // kFixed
  std::uint32_t amax[kThreads];       // square blocks: of a block's pair of halves
};

// Whether a direction's scales serve square blocks; the kernel for any modes alone knows them.
template <Grid G, Mode M>
__device__ bool is_square(const Direction& d) {
  return M == Mode::kAny && (G == Grid::kMx || G == Grid::kNv) && d.out.format.square_blocks;
}
template <Grid G>
constexpr int kSquare = G == Grid::kNv ? 16 : 32;  // rows and columns of a square block
template <Grid G>
__device__ std::uint32_t& square_amax(Shared& shared, int row, int col) {
  return shared.amax[row / kSquare<G> * (kTile / kSquare<G>)+col / kSquare<G>];
}

template <typename E, Grid G, Mode M>
__device__ Rules rules_of(const Direction& d) {
  const formats::QuantFormat& f = d.out.format;
  Rules r;
  const int exponent = prescale_of(d.prescale);
  r.prescale = formats::exp2_f32(exponent);
  r.prescaled = exponent != 0;
  r.power_of_two = f.power_of_two_scale;
  if (G == Grid::kMx && f.scale_rule == formats::ScaleRule::kCeil) r.carry = 0x7FFFFFu - (f32_bits(E::kMax) & 0x7FFFFFu);
  if constexpr (G == Grid::kNv) {
    r.two_level = f.two_level;
    r.tensor_scale = formats::nvfp4_tensor_scale(amax_of(d, 0), f);
    r.inverse = 1.0f / (6.0f * r.tensor_scale);
    r.unscaled = static_cast<double>(r.tensor_scale) * static_cast<double>(formats::exp2_f32(-exponent));
    r.exact = !(r.tensor_scale >= 0x1p-100f && r.tensor_scale <= 0x1p100f);
  }
  r.key = {.seed = d.seed, .tensor = d.tensor, .step = is_drawn<M>(d) ? step_of(d) : 0};
  if (is_transformed<M, G>(d)) r.signs = signs_of(d);
  return r;
}

// mx_scale in four instructions: a subnormal amax, and 0, fall below byte 0.
template <typename E>
__device__ TileScale mx_tile_scale(formats::Amax amax, std::uint32_t carry) {
  const int byte = static_cast<int>((amax + carry) >> 23) - E::kMaxExponent;
  TileScale s;
  s.byte = amax >= formats::kAmaxInfinity ? formats::Ue8m0::kNanCode : static_cast<std::uint32_t>(byte < 0 ? 0 : byte);
  s.factor = amax >= formats::kAmaxInfinity ? 0.0f : bits_f32((254u - s.byte) << 23);
  s.exact = amax >= formats::kAmaxInfinity;
  return s;
}

// Under a scale of 0 or NaN NVFP4 has codes of 0.
__device__ inline bool has_codes(std::uint32_t byte) { return byte != 0 && byte != formats::E4m3::kNanCode; }

// The byte of a block's scale outside the fast path; `at_tie`: the quotient is normal and `bits` lies next to a tie.
__attribute__((noinline)) __device__ inline std::uint32_t nvfp4_scale_slow(formats::Amax amax, float tensor_scale,
                                                                           std::uint32_t bits, bool at_tie) {
  if (!at_tie || amax >= formats::kAmaxInfinity) return formats::nvfp4_block_scale(amax, tensor_scale, 6.0f);
  const std::uint32_t low = (bits >> 20) - (120u << 3);
  const float tie = bits_f32((bits & ~0xFFFFFu) | 0x80000u);
  const bool up = rounds_up_at(static_cast<double>(bits_f32(amax)), 6.0 * static_cast<double>(tensor_scale), tie, low);
  const std::uint32_t byte = low + (up ? 1u : 0u);
  return byte < formats::E4m3::kMaxCode ? byte : formats::E4m3::kMaxCode;
}

// nvfp4_block_scale without f64 unless the quotient comes near a tie. A single level's quotient is a bf16 by 6, a tie or
// 2^-8 of it away, so rounding it a little finds the tie itself.
__device__ inline TileScale nv_tile_scale(formats::Amax amax, const Rules& r, bool short_amax, bool stochastic) {
  TileScale s;
  s.tensor_scale = r.tensor_scale;
  const float quotient = bits_f32(amax) * r.inverse;
  std::uint32_t bits = f32_bits(quotient);
  const bool snap = short_amax && !r.two_level;
  if (snap) bits = (bits + 0x40u) & ~0x7Fu;
  const bool near_tie = !snap && ((bits + 8u - 0x80000u) & 0xFFFFFu) < 16u;
  if (r.exact || near_tie || !(quotient >= 0x1p-6f) || amax >= formats::kAmaxInfinity) {
    s.byte = nvfp4_scale_slow(amax, r.tensor_scale, bits, near_tie && !r.exact && quotient >= 0x1p-6f);
  } else {
    s.byte = cvt_fp8x2<formats::E4m3>(bits_f32(bits), 0.0f) & 0xFFu;
  }
  if (!has_codes(s.byte)) return s;
  const float scale = bits_f32(s.byte << 20) * 0x1p120f * r.tensor_scale;
  if (stochastic) {
    const float factor = 1.0f / scale;
    s.factor = factor <= formats::kMaxF32 ? factor : formats::kMaxF32;
  } else {
    s.factor = rcp_approx(scale);
  }
  s.exact = r.exact;
  return s;
}

template <typename E, Grid G>
__device__ TileScale tile_scale(formats::Amax amax, const Rules& r, bool short_amax, bool stochastic) {
  if constexpr (G == Grid::kMx) return mx_tile_scale<E>(amax, r.carry);
  if constexpr (G == Grid::kNv) return nv_tile_scale(amax, r, short_amax, stochastic);
  const formats::F32Scale scale = formats::f32_scale(amax, kElement<E>, r.power_of_two);
  return {.factor = scale.encode, .decode = scale.decode};
}

// Codes of eight elements; kShort: bf16 values times a power of two, not transformed.
template <typename E, Grid G, bool kShort>
__device__ void encode(const float* x, const TileScale& s, bool stochastic, const std::uint32_t* random,
                       std::uint32_t* words) {
  if (stochastic) {
    draw_codes<E, G == Grid::kFixed>(x, s, random, words);
  } else if constexpr (!kIsE2m1<E>) {
    round_codes_fp8<E>(x, s.factor, words);
  } else {
    if constexpr (kShort && G == Grid::kNv) {  // what thresholds do not cover
      words[0] = e2m1_word_exact({x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}, s, true);
    } else {
      words[0] = kShort ? e2m1_of_short(x, s.factor) : e2m1_of_any(x, s, G == Grid::kNv);
    }
  }
  if (G == Grid::kNv && !has_codes(s.byte)) words[0] = 0;
}

__device__ inline float low_f32(std::uint32_t pair) { return bits_f32(pair << 16); }
__device__ inline float high_f32(std::uint32_t pair) { return bits_f32(pair & 0xFFFF0000u); }

// Amax bits of a packed pair's two magnitudes, after the prescale.
__device__ inline formats::Amax low_amax(std::uint32_t pair, const Rules& r) {
  return formats::magnitude_bits(low_f32(pair) * r.prescale);
}

__device__ inline std::uint32_t shuffle_max(std::uint32_t pair, int lanes) {
  for (int offset = 1; offset < lanes; offset *= 2)
    pair = max_magnitude_bf16x2(pair, __shfl_xor_sync(0xffffffffu, pair, offset));
  return pair;
}

}  // namespace
}  // namespace ida::cuda
