// What a tiled quantisation needs to know before it, in a read of its own: the largest magnitudes of a tensor or of rows.
#include <tuple>

#include "backend/cuda/device/convert.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/quantize_tile.h"

namespace ida::cuda {
namespace {

using formats::ScaleGrid;

constexpr int kThreads = 256;
constexpr int kElems = 8;   // of a 16-byte access
constexpr int kRows = 128;  // of a thread

__device__ float bits_f32(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The largest magnitudes of a tensor, its rows and its columns before any transform: a thread takes eight columns of 128
// rows.
struct Measure {
  Direction d;
  std::uint32_t* tensor;
  std::uint32_t* rows;
  std::uint32_t* cols;
};
__global__ void __launch_bounds__(kThreads) measure_vectors_kernel(Measure p) {
  const std::int64_t col = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kElems;
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kRows;
  const bool inside = col < p.d.k;
  const float prescale = formats::exp2_f32(prescale_of(p.d.prescale));
  const auto bits = [&](std::uint32_t half) { return formats::magnitude_bits(bits_f32(half << 16) * prescale); };
  const auto* x = static_cast<const bf16*>(p.d.x) + row0 * p.d.x_row + col;
  std::uint32_t m[4] = {};
#pragma unroll 8
  for (int row = 0; row < kRows; ++row) {
    const uint4 v = inside && row0 + row < p.d.rows ? *reinterpret_cast<const uint4*>(x + row * p.d.x_row) : uint4{};
    m[0] = max_magnitude_bf16x2(m[0], v.x);
    m[1] = max_magnitude_bf16x2(m[1], v.y);
    m[2] = max_magnitude_bf16x2(m[2], v.z);
    m[3] = max_magnitude_bf16x2(m[3], v.w);
    if (p.rows == nullptr) continue;
    const std::uint32_t pair = max_magnitude_bf16x2(max_magnitude_bf16x2(v.x, v.y), max_magnitude_bf16x2(v.z, v.w));
    const std::uint32_t most = warp_max_u32(max_magnitude_bf16x2(pair, pair >> 16) & 0xFFFFu);
    if (threadIdx.x % kWarpSize == 0 && row0 + row < p.d.rows) atomicMax(p.rows + row0 + row, bits(most));
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
        low[j] = bits_f32(pair << 16) * prescale;
        high[j] = bits_f32(pair & 0xFFFF0000u) * prescale;
      }
      formats::hadamard16(low, signs);
      formats::hadamard16(high, signs);
#pragma unroll
      for (int j = 0; j < kChunk; ++j) m = max_magnitude(max_magnitude(m, low[j]), high[j]);
    } else {
      const auto* x = static_cast<const bf16*>(d.x) + i / chunks * d.x_row + i % chunks * kChunk;
      float v[kChunk];
#pragma unroll
      for (int j = 0; j < kChunk; j += kElems) {
        const Vec<bf16, kElems> part = load_vec<kElems>(x + j);
#pragma unroll
        for (int e = 0; e < kElems; ++e) v[j + e] = to_float(part.at[e]) * prescale;
      }
      formats::hadamard16(v, signs);
#pragma unroll
      for (int j = 0; j < kChunk; ++j) m = max_magnitude(m, v[j]);
    }
  }
  const std::uint32_t most = warp_max_u32(std::bit_cast<std::uint32_t>(m));
  if (threadIdx.x % kWarpSize == 0) atomicMax(const_cast<std::uint32_t*>(d.amax), most);
}

// Measures what is not given. Both directions share a tensor's amax unless one is transformed.
cudaError_t measure(TileParams& p, cudaStream_t stream) {
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
  const dim3 grid(static_cast<unsigned>(ceil_div(p.rows.k, kThreads * kElems)),
                  static_cast<unsigned>(ceil_div(p.rows.rows, kRows)));
  return launch_kernel(measure_vectors_kernel, grid, kThreads, 0, stream, m);
}

}  // namespace

cudaError_t launch_quantize_tiled(const Quantize& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  TileParams p{.rows = direction_by_rows(a),
               .cols = direction_by_cols(a),
               .has_rows = a.by_rows.format.grid != ScaleGrid::kNone,
               .has_cols = a.by_cols.format.grid != ScaleGrid::kNone,
               .produced = a.produced};
  if (!p.has_rows && !p.has_cols) return cudaSuccess;
  const std::int64_t words = quantize_measured_words(a.by_rows.format, a.by_cols.format, a.rows, a.cols, a.amax != nullptr);
  if (const cudaError_t error = launch_zero_words(a.measured, words, stream)) return error;
  if (const cudaError_t error = measure(p, stream)) return error;
  if (p.has_rows)
    if (const cudaError_t error = launch_zero_scale_padding(p.rows, stream)) return error;
  if (p.has_cols)
    if (const cudaError_t error = launch_zero_scale_padding(p.cols, stream)) return error;
  const ScaleGrid grid = p.has_rows ? a.by_rows.format.grid : a.by_cols.format.grid;
  if (grid == ScaleGrid::kMx32) return launch_tiles_mx(p, stream);
  return grid == ScaleGrid::kNv16 ? launch_tiles_nv(p, stream) : launch_tiles_fp8(p, stream);
}

}  // namespace ida::cuda
