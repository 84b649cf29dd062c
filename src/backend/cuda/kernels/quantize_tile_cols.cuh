// The columns of a tile, from shared memory and back through it.
#pragma once
#include "backend/cuda/kernels/quantize_tile_rows.cuh"

namespace ida::cuda {
namespace {

// Swizzled place of 16-byte chunk `chunk` of column `col` among the staged codes: lanes that write neighbouring columns,
// and lanes that read neighbouring chunks, meet in no bank.
template <typename E>
__device__ int staged_chunk(int col, int chunk) {
  constexpr int kChunks = kIsE2m1<E> ? 4 : 8;
  const int at = col * kChunks + chunk;
  return at / 8 * 8 + ((at % 8) ^ (col / 2 % 8));
}

template <Grid G>
inline constexpr int kStripSpan = G == Grid::kNv ? 16 : kStrip;  // rows of a strip under a scale

// NVFP4 to nearest: 32 rows of two columns.
__device__ inline void nearest_columns(const std::uint32_t* t, const std::uint32_t* amax, const Rules& r,
                                       std::uint32_t (*words)[kStrip / kVecCodes], std::uint8_t* scales) {
  constexpr int kSpan = kStripSpan<Grid::kNv>;
  constexpr int kScales = kTile / kSpan;  // of a column
#pragma unroll
  for (int b = 0; b < kStrip / kSpan; ++b) {
    const TileScale low = nv_tile_scale(low_amax(amax[b], r), r, true, false);
    const TileScale high = nv_tile_scale(low_amax(amax[b] >> 16, r), r, true, false);
    scales[b] = static_cast<std::uint8_t>(low.byte);
    scales[kScales + b] = static_cast<std::uint8_t>(high.byte);
    const Thresholds thresholds =
        nvfp4_thresholds(nvfp4_divisor(low.byte, r.unscaled), nvfp4_divisor(high.byte, r.unscaled));
#pragma unroll
    for (int i = 0; i < kSpan / kVecCodes; ++i) {
      const int at = b * (kSpan / kVecCodes) + i;
      e2m1_words(t + at * kVecCodes, thresholds, words[0] + at, words[1] + at);
      if (!has_codes(low.byte)) words[0][at] = 0;
      if (!has_codes(high.byte)) words[1][at] = 0;
    }
  }
}

// 32 rows of a thread's low or high column.
template <typename E, Grid G, Mode M, bool kHigh>
__device__ void column_codes(const Direction& d, const Rules& r, const std::uint32_t* t, const std::uint32_t* amax,
                             std::int64_t first_index, int col, Shared& shared, formats::Amax tile_amax,
                             std::uint32_t* words) {
  constexpr int kSpan = kStripSpan<G>;
  const bool stochastic = is_drawn<M>(d);
  const bool transformed = is_transformed<M, G>(d);
  const int strip = static_cast<int>(threadIdx.x) / kPairs;
#pragma unroll
  for (int b = 0; b < kStrip / kSpan; ++b) {
    float x[kSpan];
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      x[i] = kHigh ? high_f32(t[b * kSpan + i]) : low_f32(t[b * kSpan + i]);
      if (r.prescaled) x[i] *= r.prescale;
    }
    TileScale s;
    if constexpr (G == Grid::kFixed) {
      s.factor = shared.encode[1][col];
    } else if constexpr (G == Grid::kBlock128) {
      s = tile_scale<E, G>(tile_amax, r, true, stochastic);
    } else {
      formats::Amax own = low_amax(kHigh ? amax[b] >> 16 : amax[b], r);
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
      if (stochastic) drawn = draw(r.key, first_index + b * kSpan + i * kVecCodes);
      const std::uint32_t random[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
      std::uint32_t* to = words + (b * kSpan / kVecCodes + i) * kCodeWords<E>;
      if (transformed)
        encode<E, G, false>(x + i * kVecCodes, s, stochastic, random, to);
      else
        encode<E, G, true>(x + i * kVecCodes, s, stochastic, random, to);
    }
    if constexpr (G == Grid::kMx || G == Grid::kNv)
      shared.scales[1][col * (kTile / kSpan) + strip * (kStrip / kSpan) + b] = static_cast<std::uint8_t>(s.byte);
    if constexpr (G == Grid::kVec128 || G == Grid::kBlock128)
      if (strip == 0) reinterpret_cast<float*>(shared.scales[1])[col] = s.decode;
  }
}

template <typename E, Grid G, Mode M>
__device__ void quantize_cols(const Direction& d, const Rules& r, unsigned char* memory, std::int64_t row0,
                              std::int64_t col0, const Extent& extent, Shared& shared, formats::Amax tile_amax) {
  const int pair = static_cast<int>(threadIdx.x) % kPairs;
  const int strip = static_cast<int>(threadIdx.x) / kPairs;
  const auto* tile = reinterpret_cast<const std::uint32_t*>(memory) + strip * kStrip * kPairs + pair;
  std::uint32_t t[kStrip];
#pragma unroll
  for (int i = 0; i < kStrip; ++i) t[i] = tile[i * kPairs];

  constexpr int kSpan = kStripSpan<G>;
  std::uint32_t amax[kStrip / kSpan] = {};
  if constexpr (G == Grid::kMx || G == Grid::kNv || G == Grid::kVec128) {
#pragma unroll
    for (int i = 0; i < kStrip; ++i) amax[i / kSpan] = max_magnitude_bf16x2(amax[i / kSpan], t[i]);
  }
  if (is_square<G, M>(d)) {
#pragma unroll
    for (int b = 0; b < kStrip / kSpan; ++b)
      amax[b] = 0x10001u * square_amax<G>(shared, strip * kStrip + b * kSpan, 2 * pair);
  }
  if constexpr (G == Grid::kVec128) {
    shared.amax[strip * kPairs + pair] = amax[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile / kStrip; ++i) amax[0] = max_magnitude_bf16x2(amax[0], shared.amax[i * kPairs + pair]);
  }

  constexpr int kWords = kStrip / kVecCodes * kCodeWords<E>;
  std::uint32_t words[2][kWords];
  const std::int64_t first_index = (col0 + 2 * pair) * d.k + row0 + strip * kStrip;
  if (G == Grid::kNv && !is_drawn<M>(d) && !is_transformed<M, G>(d) && !r.exact) {
    if constexpr (G == Grid::kNv)
      nearest_columns(t, amax, r, words, shared.scales[1] + 2 * pair * (kTile / kSpan) + strip * (kStrip / kSpan));
  } else {
    column_codes<E, G, M, false>(d, r, t, amax, first_index, 2 * pair, shared, tile_amax, words[0]);
    column_codes<E, G, M, true>(d, r, t, amax, first_index + d.k, 2 * pair + 1, shared, tile_amax, words[1]);
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
    if (extent.has(chunk * 16 * (kIsE2m1<E> ? 2 : 1), col))
      *reinterpret_cast<uint4*>(to) = staged[staged_chunk<E>(col, chunk)];
  }
}

}  // namespace
}  // namespace ida::cuda
