// The rows of a tile, from the vectors in registers.
#pragma once
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
                              const Extent& extent, Shared& shared, formats::Amax tile_amax) {
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
        encode<E, G, false>(x, s, stochastic, words_random, words);
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
        pair = shuffle_max(pair, kLanesABlock);
        if (is_square<G, M>(d)) pair = square_amax<G>(shared, row, lane * kVecCodes);
        s = tile_scale<E, G>(low_amax(pair, r), r, true, stochastic);
      }
      if (G == Grid::kNv && !stochastic && !r.exact) {
        const double divisor = nvfp4_divisor(s.byte, r.unscaled);
        words[0] = has_codes(s.byte) ? e2m1_word(w, nvfp4_thresholds(divisor, divisor)) : 0;
      } else {
        encode<E, G, true>(x, s, stochastic, words_random, words);
      }
    }
    std::uint8_t* to = d.out.codes + (row0 + row) * d.out.code_stride + (col0 + lane * kVecCodes) / (kIsE2m1<E> ? 2 : 1);
    if (!extent.has(row, lane * kVecCodes)) {
      // Beyond the matrix: its scale is that of zeros.
    } else if constexpr (kIsE2m1<E>) {
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

}  // namespace
}  // namespace ida::cuda
