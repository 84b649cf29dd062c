// bf16 by rows, by columns or both from one read, a block a tile of 128 x 128. Each thread loads eight vectors of eight
// elements and quantises the rows from them: lanes that share a block of a row shuffle their largest magnitude. For the
// columns the tile lies in shared memory, each thread takes 32 rows of two columns, and the codes pass through shared
// memory again so that a warp writes whole lines of the transposed matrix. Scales are gathered there too.
// Compiled with --fmad=false: the bits are those of the CPU.
#pragma once
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/kernels/quantize_tile_rules.cuh"

namespace ida::cuda {
namespace {

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

template <typename E, Grid G, Mode M>
__device__ void quantize_rows(const Direction& d, const Rules& r, const uint4* vecs, std::int64_t row0, std::int64_t col0,
                              Shared& shared, formats::Amax tile_amax) {
  const bool stochastic = is_drawn<M>(d);
  const bool transformed = is_transformed<M, G>(d);
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
    if (stochastic) random = draw(r.key, (row0 + row) * d.k + col0 + lane * kVecCodes);
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

template <typename E, Grid G, Mode M>
__device__ void quantize_cols(const Direction& d, const Rules& r, unsigned char* memory, std::int64_t row0,
                              std::int64_t col0, Shared& shared, formats::Amax tile_amax) {
  const bool stochastic = is_drawn<M>(d);
  const bool transformed = is_transformed<M, G>(d);
  const int pair = static_cast<int>(threadIdx.x) % kPairs;
  const int strip = static_cast<int>(threadIdx.x) / kPairs;
  const auto* tile = reinterpret_cast<const std::uint32_t*>(memory) + strip * kStrip * kPairs + pair;
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
        formats::Amax own = low_amax(c == 0 ? amax[b] : amax[b] >> 16, r);
        if (transformed) {
          float m = 0.0f;
#pragma unroll
          for (int i = 0; i < kSpan; i += kChunk) formats::hadamard16(x + i, r.signs);
#pragma unroll
          for (int i = 0; i < kSpan; ++i) m = max_magnitude(m, x[i]);
          own = f32_bits(m);
        }
        s = tile_scale<E, G>(own, r, !transformed, stochastic);
      }
#pragma unroll
      for (int i = 0; i < kSpan / kVecCodes; ++i) {
        uint4 drawn = {};
        if (stochastic) drawn = draw(r.key, (col0 + col) * d.k + row0 + strip * kStrip + b * kSpan + i * kVecCodes);
        const std::uint32_t random[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
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

template <typename E, Grid G, Mode R, Mode C>
__global__ void __launch_bounds__(kThreads, 3) quantize_tile_kernel(TileParams p) {
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
  const bool has_rows = R == Mode::kAny ? p.has_rows : R != Mode::kOff;
  const bool has_cols = C == Mode::kAny ? p.has_cols : C != Mode::kOff;
  const Rules by_rows = rules_of<E, G, R>(p.rows);
  const Rules by_cols = rules_of<E, G, C>(p.cols);
  store_tensor_scale(p.rows, has_rows, by_rows.tensor_scale);
  store_tensor_scale(p.cols, has_cols, by_cols.tensor_scale);
  if constexpr (G == Grid::kFixed) {
    if (has_rows && thread < kTile) fixed_scales<E>(p.rows, shared.encode[0], row0, col0);
    if (has_cols && thread >= kTile) fixed_scales<E>(p.cols, shared.encode[1], col0, row0);
  }

  // The tile to shared memory
  if (has_cols) {
    auto* tile = reinterpret_cast<uint4*>(memory) + thread;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) tile[i * kThreads] = vecs[i];
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
    tile_amax = low_amax(tile_amax, has_rows ? by_rows : by_cols);
  }

  // Codes
  if (has_rows) quantize_rows<E, G, R>(p.rows, by_rows, vecs, row0, col0, shared, tile_amax);
  if (has_cols) quantize_cols<E, G, C>(p.cols, by_cols, memory, row0, col0, shared, tile_amax);

  // Scales
  if constexpr (G == Grid::kFixed) return;
  __syncthreads();
  if (has_rows && thread < kTile) store_scales<G>(p.rows, shared.scales[0], row0, col0);
  if (has_cols && thread >= kTile) store_scales<G>(p.cols, shared.scales[1], col0, row0);
}

inline Mode mode_of(bool wanted, const formats::QuantFormat& f) {
  if (!wanted) return Mode::kOff;
  const bool drawn = f.rounding == formats::Rounding::kStochastic;
  if (f.hadamard == formats::Hadamard::kNone) return drawn ? Mode::kDrawn : Mode::kNearest;
  return drawn ? Mode::kDrawnTransformed : Mode::kNearestTransformed;
}

// The kernel made for these modes among the list's pairs, else the one for any.
template <typename E, Grid G, Mode... kPairs>
struct ModePairs {};
using Kernel = void (*)(TileParams);
template <typename E, Grid G>
Kernel kernel_of(Mode, Mode, ModePairs<E, G>) {
  return quantize_tile_kernel<E, G, Mode::kAny, Mode::kAny>;
}
template <typename E, Grid G, Mode R, Mode C, Mode... kRest>
Kernel kernel_of(Mode rows, Mode cols, ModePairs<E, G, R, C, kRest...>) {
  if (rows == R && cols == C) return quantize_tile_kernel<E, G, R, C>;
  return kernel_of(rows, cols, ModePairs<E, G, kRest...>{});
}

template <typename E, Grid G>
cudaError_t launch_tiles(const TileParams& p, cudaStream_t stream) {
  using enum Mode;
  const Mode rows = mode_of(p.has_rows, p.rows.out.format);
  const Mode cols = mode_of(p.has_cols, p.cols.out.format);
  Kernel kernel = nullptr;
  if constexpr (G == Grid::kMx || G == Grid::kNv)
    kernel = kernel_of(rows, cols,
                       ModePairs<E, G, kNearest, kOff, kOff, kNearest, kNearest, kNearest, kDrawn, kOff, kOff, kDrawn,
                                 kDrawn, kDrawn, kOff, kNearestTransformed, kNearest, kNearestTransformed, kOff,
                                 kDrawnTransformed, kDrawn, kDrawnTransformed>{});
  else
    kernel = kernel_of(
        rows, cols,
        ModePairs<E, G, kNearest, kOff, kOff, kNearest, kNearest, kNearest, kDrawn, kOff, kOff, kDrawn, kDrawn, kDrawn>{});
  const dim3 blocks(static_cast<unsigned>(p.rows.k / kTile), static_cast<unsigned>(p.rows.rows / kTile));
  return launch_kernel(kernel, blocks, kThreads, p.has_cols ? kTileBytes : 0, stream, p);
}

}  // namespace
}  // namespace ida::cuda
