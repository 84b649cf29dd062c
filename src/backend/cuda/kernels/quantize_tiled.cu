// bf16 by rows, by columns or both from one read, a block a tile of 128 x 128. Each thread loads eight vectors of eight
// elements and quantises the rows from them: lanes that share a block of a row shuffle their largest magnitude. For the
// columns the tile lies in shared memory, each thread takes 32 rows of two columns, and the codes pass through shared
// memory again so that a warp writes whole lines of the transposed matrix. Scales are gathered there too.
// Compiled with --fmad=false: the bits are those of the CPU.
#include <tuple>
#include <type_traits>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/kernels/quantize_encode.cuh"

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

struct Params {
  Direction rows;
  Direction cols;
  bool has_rows = false;
  bool has_cols = false;
};

// What is the same for a direction's whole tile.
struct Rules {
  float prescale = 1.0f;
  bool prescaled = false;
  bool power_of_two = false;
  bool two_level = false;
  std::uint32_t carry = 0;  // MX: added to an amax, carries where the rule rounds its exponent up
  float tensor_scale = 1.0f;
  float inverse = 0.0f;  // NVFP4: 1 / (6 * tensor scale)
  bool exact = false;    // no short cuts: out of the range of f32 quotients
  formats::RandomKey key;
  std::uint16_t signs = 0;
};

// The block's shared memory beside tile and random bits.
struct alignas(16) Shared {
  std::uint8_t scales[2][kTile * 8];  // of rows, of columns: [128, scales of a row in the tile]
  float encode[2][kTile];             // kFixed
  std::uint32_t amax[kThreads];
};

template <typename E, Grid G>
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
    r.exact = !(r.tensor_scale >= 0x1p-100f && r.tensor_scale <= 0x1p100f);
  }
  r.key = {.seed = d.seed, .tensor = d.tensor, .step = f.rounding == formats::Rounding::kStochastic ? *d.step : 0};
  if (f.hadamard != formats::Hadamard::kNone) r.signs = signs_of(d);
  return r;
}

// mx_scale in four instructions: a subnormal amax, and 0, fall below byte 0.
template <typename E>
__device__ TileScale mx_tile_scale(formats::Amax amax, std::uint32_t carry) {
  const int byte = static_cast<int>((amax + carry) >> 23) - E::kMaxExponent;
  TileScale s;
  s.byte = amax >= formats::kAmaxInfinity ? formats::Ue8m0::kNanCode : static_cast<std::uint32_t>(byte < 0 ? 0 : byte);
  s.factor = amax >= formats::kAmaxInfinity ? 0.0f : bits_f32((254u - s.byte) << 23);
  return s;
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
  if (r.exact || near_tie || !(quotient >= 0x1p-6f) || amax >= formats::kAmaxInfinity)
    s.byte = formats::nvfp4_block_scale(amax, r.tensor_scale, 6.0f);
  else
    s.byte = cvt_fp8x2<formats::E4m3>(bits_f32(bits), 0.0f) & 0xFFu;
  if (s.byte == 0 || s.byte == formats::E4m3::kNanCode) return s;
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
__device__ void encode(const float* x, const TileScale& s, const Rules& r, bool stochastic, const std::uint32_t* random,
                       std::uint32_t* words) {
  if (stochastic) {
    draw_codes<E>(x, s, random, words);
  } else if constexpr (!kIsE2m1<E>) {
    round_codes_fp8<E>(x, s.factor, words);
  } else {
    words[0] = kShort && (G != Grid::kNv || (!r.two_level && !s.exact)) ? e2m1_of_short(x, s.factor)
                                                                        : e2m1_of_any(x, s, G == Grid::kNv);
  }
  const bool none = G != Grid::kNv ? s.factor == 0.0f  // the NaN scale's
                                   : s.byte == formats::E4m3::kNanCode || (s.byte == 0 && !stochastic);
#pragma unroll
  for (int i = 0; i < kCodeWords<E>; ++i) words[i] = none ? 0u : words[i];
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

// The transform of 16 elements of which neighbouring lanes hold eight each.
__device__ inline void hadamard_of_lanes(float* x, std::uint32_t signs, bool upper) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = bits_f32(f32_bits(x[i]) ^ (signs >> i & 1u) << 31);
#pragma unroll
  for (int stride = 1; stride < 8; stride *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float other = __shfl_xor_sync(0xffffffffu, x[i], 1);
    x[i] = (other + (upper ? -x[i] : x[i])) * 0.25f;
  }
}

template <Grid G>
inline constexpr int kBlockElems = G == Grid::kMx   ? 32
                                   : G == Grid::kNv ? 16
                                                    : 128;

// Random bits of eight elements.
__device__ inline uint4 draw(const formats::RandomKey& key, std::int64_t index) {
  const PhiloxBlock b = formats::random_block(key, static_cast<std::uint64_t>(index) / formats::kRandomElems);
  return {b[0], b[1], b[2], b[3]};
}

template <typename E, Grid G>
__device__ void quantize_rows(const Direction& d, const Rules& r, const uint4* vecs, std::int64_t row0, std::int64_t col0,
                              Shared& shared, formats::Amax tile_amax) {
  const bool stochastic = d.out.format.rounding == formats::Rounding::kStochastic;
  const bool transformed = d.out.format.hadamard != formats::Hadamard::kNone;
  const int lane = static_cast<int>(threadIdx.x) % kLanesARow;
  constexpr int kLanesABlock = kBlockElems<G> / kVecCodes;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int row = i * kRowsATurn + static_cast<int>(threadIdx.x) / kLanesARow;
    const std::uint32_t w[4] = {vecs[i].x, vecs[i].y, vecs[i].z, vecs[i].w};
    float x[kVecCodes];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[2 * j] = low_f32(w[j]);
      x[2 * j + 1] = high_f32(w[j]);
    }
    if (r.prescaled) {
#pragma unroll
      for (int j = 0; j < kVecCodes; ++j) x[j] *= r.prescale;
    }
    TileScale s;
    uint4 random = {};
    if (stochastic) random = draw(r.key, (row0 + row) * d.index_row + col0 + lane * kVecCodes);
    const std::uint32_t words_random[4] = {random.x, random.y, random.z, random.w};
    std::uint32_t words[kCodeWords<E>];
    bool done = false;
    if constexpr (G == Grid::kMx || G == Grid::kNv) {
      if (transformed) {
        hadamard_of_lanes(x, static_cast<std::uint32_t>(r.signs) >> (lane % 2 * 8), lane % 2 != 0);
        float m = 0.0f;
#pragma unroll
        for (int j = 0; j < kVecCodes; ++j) m = max_magnitude(m, x[j]);
#pragma unroll
        for (int offset = 1; offset < kLanesABlock; offset *= 2)
          m = max_magnitude(m, __shfl_xor_sync(0xffffffffu, m, offset));
        s = tile_scale<E, G>(f32_bits(m), r, false, stochastic);
        encode<E, G, false>(x, s, r, stochastic, words_random, words);
        done = true;
      }
    }
    if (!done) {
      if constexpr (G == Grid::kFixed) {
        s.factor = shared.encode[0][row];
      } else if constexpr (G == Grid::kBlock128) {
        s = tile_scale<E, G>(tile_amax, r, true, stochastic);
      } else {
        std::uint32_t pair = max_magnitude_bf16x2(max_magnitude_bf16x2(w[0], w[1]), max_magnitude_bf16x2(w[2], w[3]));
        pair = max_magnitude_bf16x2(pair, pair >> 16);
        s = tile_scale<E, G>(low_amax(shuffle_max(pair, kLanesABlock), r), r, true, stochastic);
      }
      encode<E, G, true>(x, s, r, stochastic, words_random, words);
    }
    std::uint8_t* to = d.out.codes + (row0 + row) * d.out.code_stride + (col0 + lane * kVecCodes) / (kIsE2m1<E> ? 2 : 1);
    if constexpr (kIsE2m1<E>) {
      *reinterpret_cast<std::uint32_t*>(to) = words[0];
    } else {
      store_vec<2>(reinterpret_cast<std::uint32_t*>(to), {words[0], words[1]});
    }
    if (lane % kLanesABlock == 0) {
      if constexpr (G == Grid::kMx || G == Grid::kNv)
        shared.scales[0][row * (kTile / kBlockElems<G>)+lane / kLanesABlock] = static_cast<std::uint8_t>(s.byte);
      if constexpr (G == Grid::kVec128 || G == Grid::kBlock128) reinterpret_cast<float*>(shared.scales[0])[row] = s.decode;
    }
  }
}

// Swizzled place of 16-byte chunk `chunk` of column `col` among the staged codes: lanes that write neighbouring columns,
// and lanes that read neighbouring chunks, meet in no bank.
template <typename E>
__device__ int staged_chunk(int col, int chunk) {
  constexpr int kChunks = kIsE2m1<E> ? 4 : 8;
  const int at = col * kChunks + chunk;
  return at / 8 * 8 + ((at % 8) ^ (col / 2 % 8));
}

template <typename E, Grid G>
__device__ void quantize_cols(const Direction& d, const Rules& r, unsigned char* memory, std::int64_t row0,
                              std::int64_t col0, Shared& shared, formats::Amax tile_amax) {
  const bool stochastic = d.out.format.rounding == formats::Rounding::kStochastic;
  const bool transformed = d.out.format.hadamard != formats::Hadamard::kNone;
  const int pair = static_cast<int>(threadIdx.x) % kPairs;
  const int strip = static_cast<int>(threadIdx.x) / kPairs;
  const auto* tile = reinterpret_cast<const std::uint32_t*>(memory) + strip * kStrip * kPairs + pair;
  const auto* drawn = tile + kTileBytes / 4;
  std::uint32_t t[kStrip];
#pragma unroll
  for (int i = 0; i < kStrip; ++i) t[i] = tile[i * kPairs];

  constexpr int kSpan = G == Grid::kNv ? 16 : kStrip;  // rows under a scale
  std::uint32_t amax[kStrip / kSpan] = {};
  if constexpr (G == Grid::kMx || G == Grid::kNv || G == Grid::kVec128) {
#pragma unroll
    for (int i = 0; i < kStrip; ++i) amax[i / kSpan] = max_magnitude_bf16x2(amax[i / kSpan], t[i]);
  }
  if constexpr (G == Grid::kVec128) {
    shared.amax[strip * kPairs + pair] = amax[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile / kStrip; ++i) amax[0] = max_magnitude_bf16x2(amax[0], shared.amax[i * kPairs + pair]);
  }

  constexpr int kWords = kStrip / kVecCodes * kCodeWords<E>;
  std::uint32_t words[2][kWords];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const int col = 2 * pair + c;
#pragma unroll
    for (int b = 0; b < kStrip / kSpan; ++b) {
      float x[kSpan];
#pragma unroll
      for (int i = 0; i < kSpan; ++i) {
        x[i] = c == 0 ? low_f32(t[b * kSpan + i]) : high_f32(t[b * kSpan + i]);
        if (r.prescaled) x[i] *= r.prescale;
      }
      TileScale s;
      if constexpr (G == Grid::kFixed) {
        s.factor = shared.encode[1][col];
      } else if constexpr (G == Grid::kBlock128) {
        s = tile_scale<E, G>(tile_amax, r, true, stochastic);
      } else {
        bool transformed_here = false;
        if constexpr (G != Grid::kVec128) transformed_here = transformed;
        formats::Amax own = low_amax(c == 0 ? amax[b] : amax[b] >> 16, r);
        if (transformed_here) {
          float m = 0.0f;
#pragma unroll
          for (int i = 0; i < kSpan; i += kChunk) formats::hadamard16(x + i, r.signs);
#pragma unroll
          for (int i = 0; i < kSpan; ++i) m = max_magnitude(m, x[i]);
          own = f32_bits(m);
        }
        s = tile_scale<E, G>(own, r, !transformed_here, stochastic);
      }
#pragma unroll
      for (int i = 0; i < kSpan / kVecCodes; ++i) {
        std::uint32_t random[4] = {};
        if (stochastic) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int row = b * kSpan + i * kVecCodes + 2 * j;
            const std::uint32_t first = drawn[row * kPairs];
            const std::uint32_t second = drawn[(row + 1) * kPairs];
            random[j] = permute_bytes(first, second, c == 0 ? 0x5410 : 0x7632);
          }
        }
        std::uint32_t* to = words[c] + (b * kSpan / kVecCodes + i) * kCodeWords<E>;
        if (transformed)
          encode<E, G, false>(x + i * kVecCodes, s, r, stochastic, random, to);
        else
          encode<E, G, true>(x + i * kVecCodes, s, r, stochastic, random, to);
      }
      if constexpr (G == Grid::kMx || G == Grid::kNv)
        shared.scales[1][col * (kTile / kSpan) + strip * (kStrip / kSpan) + b] = static_cast<std::uint8_t>(s.byte);
      if constexpr (G == Grid::kVec128 || G == Grid::kBlock128)
        if (strip == 0) reinterpret_cast<float*>(shared.scales[1])[col] = s.decode;
    }
  }
  __syncthreads();  // everyone has read the tile
  auto* staged = reinterpret_cast<uint4*>(memory);
#pragma unroll
  for (int c = 0; c < 2; ++c) {
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i)
      staged[staged_chunk<E>(2 * pair + c, strip * (kWords / 4) + i)] = {words[c][4 * i], words[c][4 * i + 1],
                                                                         words[c][4 * i + 2], words[c][4 * i + 3]};
  }
  __syncthreads();
  constexpr int kChunks = kWords;  // 16-byte pieces of a column
#pragma unroll
  for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int col = at / kChunks;
    const int chunk = at % kChunks;
    std::uint8_t* to = d.out.codes + (col0 + col) * d.out.code_stride + row0 / (kIsE2m1<E> ? 2 : 1) + chunk * 16;
    *reinterpret_cast<uint4*>(to) = staged[staged_chunk<E>(col, chunk)];
  }
}

// Scales of a tile from shared memory. (row0, k0) is the tile's first element in the quantised matrix.
template <Grid G>
__device__ void store_scales(const Direction& d, const std::uint8_t* scales, std::int64_t row0, std::int64_t k0) {
  const int thread = static_cast<int>(threadIdx.x) % kTile;
  const bool products = d.out.layout == formats::ScaleLayout::kProduct;
  if constexpr (G == Grid::kMx || G == Grid::kNv) {
    constexpr int kScales = kTile / kBlockElems<G>;  // of a row
    auto* to = static_cast<std::uint8_t*>(d.out.scales);
    const auto* words = reinterpret_cast<const std::uint32_t*>(scales);
    if (!products) {
      to += (row0 + thread) * d.out.scale_stride + k0 / kBlockElems<G>;
#pragma unroll
      for (int i = 0; i < kScales / 4; ++i) reinterpret_cast<std::uint32_t*>(to)[i] = words[thread * (kScales / 4) + i];
    } else if (thread < 32 * (kScales / 4)) {
      const int tile = thread / 32;
      const int row = thread % 32;
      to += formats::tiled_scale_offset(row0 + row, k0 / kBlockElems<G> + 4 * tile, d.k / kBlockElems<G>);
      const auto word = [&](int quarter) { return words[(row + 32 * quarter) * (kScales / 4) + tile]; };
      *reinterpret_cast<uint4*>(to) = {word(0), word(1), word(2), word(3)};
    }
  } else if constexpr (G == Grid::kVec128) {
    static_cast<float*>(d.out.scales)[scale_place(d.out, d.k, row0 + thread, k0 / 128)] =
        reinterpret_cast<const float*>(scales)[thread];
  } else if constexpr (G == Grid::kBlock128) {
    if (thread == 0)
      static_cast<float*>(d.out.scales)[scale_place(d.out, d.k, row0, k0 / 128)] = *reinterpret_cast<const float*>(scales);
  }
}

// Encode factors of the tile's rows from what is known of the tensor or the row; its first tile writes the scales.
template <typename E>
__device__ void fixed_scales(const Direction& d, float* encode, std::int64_t row0, std::int64_t k0) {
  const int thread = static_cast<int>(threadIdx.x) % kTile;
  const formats::F32Scale scale =
      formats::f32_scale(amax_of(d, row0 + thread), kElement<E>, d.out.format.power_of_two_scale);
  encode[thread] = scale.encode;
  const bool by_row = d.out.format.grid == ScaleGrid::kRow;
  if (k0 == 0 && (by_row || row0 + thread == 0))
    static_cast<float*>(d.out.scales)[by_row ? (row0 + thread) * d.out.scale_stride : 0] = scale.decode;
}

__device__ inline void store_tensor_scale(const Direction& d, bool wanted, float scale) {
  if (wanted && d.out.tensor_scale != nullptr && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
    *d.out.tensor_scale = scale * formats::exp2_f32(-prescale_of(d.prescale));
}

template <typename E, Grid G>
__global__ void __launch_bounds__(kThreads, 3) quantize_tile_kernel(Params p) {
  __shared__ Shared shared;
  auto* memory = static_cast<unsigned char*>(dynamic_shared());
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  const std::int64_t col0 = std::int64_t{blockIdx.x} * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane_col = thread % kLanesARow * kVecCodes;

  // Loads
  const auto* x = static_cast<const bf16*>(p.rows.x) + (row0 + thread / kLanesARow) * p.rows.x_row + col0 + lane_col;
  uint4 vecs[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) vecs[i] = *reinterpret_cast<const uint4*>(x + i * kRowsATurn * p.rows.x_row);

  // What is known before the elements
  const Rules by_rows = rules_of<E, G>(p.rows);
  const Rules by_cols = rules_of<E, G>(p.cols);
  store_tensor_scale(p.rows, p.has_rows, by_rows.tensor_scale);
  store_tensor_scale(p.cols, p.has_cols, by_cols.tensor_scale);
  if constexpr (G == Grid::kFixed) {
    if (p.has_rows && thread < kTile) fixed_scales<E>(p.rows, shared.encode[0], row0, col0);
    if (p.has_cols && thread >= kTile) fixed_scales<E>(p.cols, shared.encode[1], col0, row0);
  }

  // The tile, and the random bits of its columns, to shared memory
  if (p.has_cols) {
    auto* tile = reinterpret_cast<uint4*>(memory) + thread;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) tile[i * kThreads] = vecs[i];
    if (p.cols.out.format.rounding == formats::Rounding::kStochastic) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i)
        tile[kTileBytes / 16 + i * kThreads] =
            draw(by_cols.key, (row0 + thread / kLanesARow + i * kRowsATurn) * p.cols.index_k + col0 + lane_col);
    }
  }
  std::uint32_t tile_amax = 0;
  if constexpr (G == Grid::kBlock128) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i)
      tile_amax = max_magnitude_bf16x2(tile_amax, max_magnitude_bf16x2(max_magnitude_bf16x2(vecs[i].x, vecs[i].y),
                                                                       max_magnitude_bf16x2(vecs[i].z, vecs[i].w)));
    tile_amax = shuffle_max(max_magnitude_bf16x2(tile_amax, tile_amax >> 16), kWarpSize);
    if (thread % kWarpSize == 0) shared.amax[thread / kWarpSize] = tile_amax;
  }
  __syncthreads();
  if constexpr (G == Grid::kBlock128) {
#pragma unroll
    for (int i = 0; i < kThreads / kWarpSize; ++i) tile_amax = max_magnitude_bf16x2(tile_amax, shared.amax[i]);
    tile_amax = low_amax(tile_amax, by_rows);
  }

  // Codes
  if (p.has_rows) quantize_rows<E, G>(p.rows, by_rows, vecs, row0, col0, shared, tile_amax);
  if (p.has_cols) quantize_cols<E, G>(p.cols, by_cols, memory, row0, col0, shared, tile_amax);

  // Scales
  if constexpr (G == Grid::kFixed) return;
  __syncthreads();
  if (p.has_rows && thread < kTile) store_scales<G>(p.rows, shared.scales[0], row0, col0);
  if (p.has_cols && thread >= kTile) store_scales<G>(p.cols, shared.scales[1], col0, row0);
}

// The largest magnitudes of a tensor, its rows and its columns before any transform: a thread takes eight columns of 128
// rows.
struct Measure {
  Direction d;
  std::uint32_t* tensor;
  std::uint32_t* rows;
  std::uint32_t* cols;
};
__global__ void __launch_bounds__(kThreads) measure_vectors_kernel(Measure p) {
  const std::int64_t col = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVecCodes;
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  const bool inside = col < p.d.k;
  const float prescale = formats::exp2_f32(prescale_of(p.d.prescale));
  const auto bits = [&](std::uint32_t half) { return formats::magnitude_bits(bits_f32(half << 16) * prescale); };
  const auto* x = static_cast<const bf16*>(p.d.x) + row0 * p.d.x_row + col;
  std::uint32_t m[4] = {};
#pragma unroll 8
  for (int row = 0; row < kTile; ++row) {
    const uint4 v = inside ? *reinterpret_cast<const uint4*>(x + row * p.d.x_row) : uint4{};
    m[0] = max_magnitude_bf16x2(m[0], v.x);
    m[1] = max_magnitude_bf16x2(m[1], v.y);
    m[2] = max_magnitude_bf16x2(m[2], v.z);
    m[3] = max_magnitude_bf16x2(m[3], v.w);
    if (p.rows == nullptr) continue;
    const std::uint32_t pair = max_magnitude_bf16x2(max_magnitude_bf16x2(v.x, v.y), max_magnitude_bf16x2(v.z, v.w));
    const std::uint32_t most = warp_max_u32(max_magnitude_bf16x2(pair, pair >> 16) & 0xFFFFu);
    if (threadIdx.x % kWarpSize == 0) atomicMax(p.rows + row0 + row, bits(most));
  }
  if (p.cols != nullptr && inside) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      atomicMax(p.cols + col + 2 * i, bits(m[i] & 0xFFFFu));
      atomicMax(p.cols + col + 2 * i + 1, bits(m[i] >> 16));
    }
  }
  if (p.tensor == nullptr) return;
  const std::uint32_t pair = max_magnitude_bf16x2(max_magnitude_bf16x2(m[0], m[1]), max_magnitude_bf16x2(m[2], m[3]));
  const std::uint32_t most = warp_max_u32(max_magnitude_bf16x2(pair, pair >> 16) & 0xFFFFu);
  if (threadIdx.x % kWarpSize == 0) atomicMax(p.tensor, bits(most));
}

// The largest magnitude of a tensor's transform by columns (two columns and 16 rows a thread) or by rows (16 elements).
__global__ void __launch_bounds__(kThreads) measure_transform_kernel(Direction d) {
  const bool by_cols = d.x_row == 1;
  const float prescale = formats::exp2_f32(prescale_of(d.prescale));
  const std::uint16_t signs = signs_of(d);
  const std::int64_t chunks = d.k / kChunk;
  const std::int64_t items = by_cols ? chunks * (d.rows / 2) : d.rows * chunks;
  float m = 0.0f;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < items;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    if (by_cols) {
      const std::int64_t pairs = d.rows / 2;
      const auto* x = static_cast<const bf16*>(d.x) + i / pairs * kChunk * d.x_k + i % pairs * 2;
      float low[kChunk];
      float high[kChunk];
#pragma unroll
      for (int j = 0; j < kChunk; ++j) {
        const std::uint32_t pair = *reinterpret_cast<const std::uint32_t*>(x + j * d.x_k);
        low[j] = low_f32(pair) * prescale;
        high[j] = high_f32(pair) * prescale;
      }
      formats::hadamard16(low, signs);
      formats::hadamard16(high, signs);
#pragma unroll
      for (int j = 0; j < kChunk; ++j) m = max_magnitude(max_magnitude(m, low[j]), high[j]);
    } else {
      const auto* x = static_cast<const bf16*>(d.x) + i / chunks * d.x_row + i % chunks * kChunk;
      float v[kChunk];
#pragma unroll
      for (int j = 0; j < kChunk; j += kVecCodes) {
        const Vec<bf16, kVecCodes> part = load_vec<kVecCodes>(x + j);
#pragma unroll
        for (int e = 0; e < kVecCodes; ++e) v[j + e] = to_float(part.at[e]) * prescale;
      }
      formats::hadamard16(v, signs);
#pragma unroll
      for (int j = 0; j < kChunk; ++j) m = max_magnitude(m, v[j]);
    }
  }
  const std::uint32_t most = warp_max_u32(f32_bits(m));
  if (threadIdx.x % kWarpSize == 0) atomicMax(const_cast<std::uint32_t*>(d.amax), most);
}

// Measures what is not given. Both directions share a tensor's amax unless one is transformed.
cudaError_t measure(Params& p, cudaStream_t stream) {
  Measure m{.d = p.rows, .tensor = nullptr, .rows = nullptr, .cols = nullptr};
  for (const auto& [wanted, d, row_maxima] :
       {std::tuple{p.has_rows, &p.rows, &m.rows}, std::tuple{p.has_cols, &p.cols, &m.cols}}) {
    if (!wanted || d->amax == nullptr || d->amax_given) continue;
    auto* target = const_cast<std::uint32_t*>(d->amax);
    if (d->out.format.hadamard != formats::Hadamard::kNone) {
      constexpr unsigned kBlocks = 2048;
      if (const cudaError_t error = launch_kernel(measure_transform_kernel, dim3(kBlocks), kThreads, 0, stream, *d))
        return error;
    } else if (d->out.format.grid == ScaleGrid::kRow) {
      *row_maxima = target;
    } else if (m.tensor == nullptr) {
      m.tensor = target;
    } else {
      d->amax = m.tensor;
    }
  }
  if (m.tensor == nullptr && m.rows == nullptr && m.cols == nullptr) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(ceil_div(p.rows.k, kThreads * kVecCodes)),
                  static_cast<unsigned>(p.rows.rows / kTile));
  return launch_kernel(measure_vectors_kernel, grid, kThreads, 0, stream, m);
}

template <typename E>
cudaError_t launch_grid(const Params& p, ScaleGrid grid, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(p.rows.k / kTile), static_cast<unsigned>(p.rows.rows / kTile));
  const bool drawn = p.has_cols && p.cols.out.format.rounding == formats::Rounding::kStochastic;
  const int bytes = !p.has_cols ? 0 : drawn ? 2 * kTileBytes : kTileBytes;
  const auto run = [&](void (*kernel)(Params)) { return launch_kernel(kernel, blocks, kThreads, bytes, stream, p); };
  if constexpr (kIsE2m1<E>) {
    return grid == ScaleGrid::kNv16 ? run(quantize_tile_kernel<E, Grid::kNv>) : run(quantize_tile_kernel<E, Grid::kMx>);
  } else {
    switch (grid) {
      case ScaleGrid::kMx32: return run(quantize_tile_kernel<E, Grid::kMx>);
      case ScaleGrid::kVec128: return run(quantize_tile_kernel<E, Grid::kVec128>);
      case ScaleGrid::kBlock128: return run(quantize_tile_kernel<E, Grid::kBlock128>);
      default: return run(quantize_tile_kernel<E, Grid::kFixed>);
    }
  }
}

}  // namespace

cudaError_t launch_quantize_tiled(const Quantize& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  Params p{.rows = direction_by_rows(a),
           .cols = direction_by_cols(a),
           .has_rows = a.by_rows.format.grid != ScaleGrid::kNone,
           .has_cols = a.by_cols.format.grid != ScaleGrid::kNone};
  if (!p.has_rows && !p.has_cols) return cudaSuccess;
  const std::int64_t words = quantize_measured_words(a.by_rows.format, a.by_cols.format, a.rows, a.cols, a.amax != nullptr);
  if (const cudaError_t error = launch_zero_words(a.measured, words, stream)) return error;
  if (const cudaError_t error = measure(p, stream)) return error;
  if (p.has_rows)
    if (const cudaError_t error = launch_zero_scale_padding(p.rows, stream)) return error;
  if (p.has_cols)
    if (const cudaError_t error = launch_zero_scale_padding(p.cols, stream)) return error;
  const formats::QuantFormat& f = p.has_rows ? a.by_rows.format : a.by_cols.format;
  switch (f.element) {
    case formats::Element::kE4m3: return launch_grid<formats::E4m3>(p, f.grid, stream);
    case formats::Element::kE5m2: return launch_grid<formats::E5m2>(p, f.grid, stream);
    default: return launch_grid<formats::E2m1>(p, f.grid, stream);
  }
}

}  // namespace ida::cuda
