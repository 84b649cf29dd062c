// bf16 by rows, by columns or both from one read, a block a tile of 128 x 128. Each thread loads eight vectors of eight
// elements and quantises the rows from them: lanes that share a block of a row shuffle their largest magnitude. For the
// columns the tile lies in shared memory, each thread takes 32 rows of two columns, and the codes pass through shared
// memory again so that a warp writes whole lines of the transposed matrix. Scales are gathered there too.
// Compiled with --fmad=false: the bits are those of the CPU.
#pragma once
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/kernels/quantize_tile_cols.cuh"
#include "backend/cuda/kernels/quantize_tile_produced.cuh"

namespace ida::cuda {
namespace {

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
      if (row0 + thread >= d.rows) return;
      to += (row0 + thread) * d.out.scale_stride + k0 / kBlockElems<G>;
      const bool whole = d.k - k0 >= kTile && d.out.scale_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(to) % 4 == 0;
#pragma unroll
      for (int i = 0; i < kScales / 4; ++i)
        if (whole) reinterpret_cast<std::uint32_t*>(to)[i] = words[thread * (kScales / 4) + i];
      for (int i = 0; !whole && i < kScales; ++i)
        if (i * kBlockElems<G> < d.k - k0) to[i] = scales[thread * kScales + i];
    } else if (thread < 32 * (kScales / 4)) {
      const int tile = thread / 32;
      if (4 * tile * kBlockElems<G> >= d.k - k0) return;
      const int row = thread % 32;
      to += formats::tiled_scale_offset(row0 + row, k0 / kBlockElems<G> + 4 * tile, d.k / kBlockElems<G>);
      // Padding is 0, also where zeros have another scale: under a tensor's scale that is NaN.
      const std::int64_t blocks = (d.k - k0) / kBlockElems<G> - 4 * tile;
      const std::uint32_t mask = blocks < 4 ? (1u << 8 * blocks) - 1u : 0xFFFFFFFFu;
      const auto word = [&](int quarter) {
        const int at = row + 32 * quarter;
        return row0 + at < d.rows ? words[at * (kScales / 4) + tile] & mask : 0u;
      };
      *reinterpret_cast<uint4*>(to) = {word(0), word(1), word(2), word(3)};
    }
  } else if constexpr (G == Grid::kVec128) {
    if (row0 + thread >= d.rows) return;
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
  if (row0 + thread >= d.rows) return;  // the codes made there go nowhere
  const formats::F32Scale scale =
      formats::f32_scale(amax_of(d, row0 + thread), kElement<E>, d.out.format.power_of_two_scale);
  encode[thread] = scale.encode;
  const bool by_row = d.out.format.grid == ScaleGrid::kRow;
  if (k0 == 0 && (by_row || row0 + thread == 0))
    static_cast<float*>(d.out.scales)[by_row ? (row0 + thread) * d.out.scale_stride : 0] = scale.decode;
}

// The largest magnitudes of square blocks, whole in a tile. A warp's lanes hold two rows.
template <Grid G>
__device__ void measure_squares(const uint4* vecs, const VecPlace& at, Shared& shared) {
  shared.amax[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    std::uint32_t pair =
        max_magnitude_bf16x2(max_magnitude_bf16x2(vecs[i].x, vecs[i].y), max_magnitude_bf16x2(vecs[i].z, vecs[i].w));
    pair = shuffle_max(max_magnitude_bf16x2(pair, pair >> 16) & 0xFFFFu, kSquare<G> / kVecCodes);
    if (at.col % kSquare<G> == 0) atomicMax(&square_amax<G>(shared, at.row_of(i), at.col), pair);
  }
}

__device__ inline void store_tensor_scale(const Direction& d, bool wanted, float scale) {
  if (wanted && d.out.tensor_scale != nullptr && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
    *d.out.tensor_scale = scale * formats::exp2_f32(-prescale_of(d.prescale));
}

template <typename E, Grid G, Mode R, Mode C, bool kProduced = false>
__global__ void __launch_bounds__(kThreads, 3) quantize_tile_kernel(TileParams p) {
  __shared__ Shared shared;
  auto* memory = static_cast<unsigned char*>(dynamic_shared());
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  const std::int64_t col0 = kProduced ? produced_column(p.produced, blockIdx.x) : std::int64_t{blockIdx.x} * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const VecPlace at{thread / kLanesARow, thread % kLanesARow * kVecCodes};
  const Extent extent{extent_of(row0, p.rows.rows), extent_of(col0, p.rows.k)};

  // Loads
  uint4 vecs[kVecs];
  if (kProduced && p.produced.source != MatrixSource::kMemory)
    produce(p.produced, row0, col0, at, extent, vecs);
  else
    load_tile(p.rows, row0, col0, at, extent, vecs);

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
  if (is_square<G, R>(p.rows) || is_square<G, C>(p.cols)) measure_squares<G>(vecs, at, shared);
  __syncthreads();
  if constexpr (G == Grid::kBlock128) {
#pragma unroll
    for (int i = 0; i < kThreads / kWarpSize; ++i) tile_amax = max_magnitude_bf16x2(tile_amax, shared.amax[i]);
    tile_amax = low_amax(tile_amax, has_rows ? by_rows : by_cols);
  }

  // Codes
  if (has_rows) quantize_rows<E, G, R>(p.rows, by_rows, vecs, row0, col0, extent, shared, tile_amax);
  if (has_cols) quantize_cols<E, G, C>(p.cols, by_cols, memory, row0, col0, extent, shared, tile_amax);

  // Scales
  if constexpr (G == Grid::kFixed) return;
  __syncthreads();
  if (has_rows && thread < kTile) store_scales<G>(p.rows, shared.scales[0], row0, col0);
  if (has_cols && thread >= kTile) store_scales<G>(p.cols, shared.scales[1], col0, row0);
}

inline Mode mode_of(bool wanted, const formats::QuantFormat& f) {
  if (!wanted) return Mode::kOff;
  if (f.square_blocks) return Mode::kAny;
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
  return quantize_tile_kernel<E, G, Mode::kAny, Mode::kAny, true>;
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
  if (p.produced.source != MatrixSource::kMemory) {
    kernel = rows == kNearest && cols == kNearest ? quantize_tile_kernel<E, G, kNearest, kNearest, true>
                                                  : quantize_tile_kernel<E, G, kAny, kAny, true>;
  } else if constexpr (G == Grid::kMx || G == Grid::kNv) {
    kernel = kernel_of(rows, cols,
                       ModePairs<E, G, kNearest, kOff, kOff, kNearest, kNearest, kNearest, kDrawn, kOff, kOff, kDrawn,
                                 kDrawn, kDrawn, kOff, kNearestTransformed, kNearest, kNearestTransformed, kOff,
                                 kDrawnTransformed, kDrawn, kDrawnTransformed>{});
  } else {
    kernel = kernel_of(
        rows, cols,
        ModePairs<E, G, kNearest, kOff, kOff, kNearest, kNearest, kNearest, kDrawn, kOff, kOff, kDrawn, kDrawn, kDrawn>{});
  }
  const dim3 blocks(static_cast<unsigned>(ceil_div(p.rows.k, kTile)), static_cast<unsigned>(ceil_div(p.rows.rows, kTile)));
  return launch_kernel(kernel, blocks, kThreads, p.has_cols ? kTileBytes : 0, stream, p);
}

}  // namespace
}  // namespace ida::cuda
