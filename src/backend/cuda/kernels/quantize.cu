// Any problem: every choice, any size and stride, f32 and bf16. A group is the elements that share a scale (a piece of
// them where a tensor or row shares one); a few lanes of a warp take a group, 16 elements along K at a time, once for the
// largest magnitude and once for the codes. Compiled with --fmad=false: the bits are those of the CPU.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/quantize.h"
#include "backend/cuda/kernels/quantize_chunk.cuh"

namespace ida::cuda {
namespace {

using formats::ScaleGrid;

constexpr int kThreads = 256;
constexpr std::int64_t kPieceElems = 512;  // of a row, where blocks do not end it

// Groups: [row_groups, k_groups], `group_rows` x `group_k` elements each.
struct Groups {
  std::int64_t group_rows = 1;
  std::int64_t group_k = 0;
  std::int64_t row_groups = 0;
  std::int64_t k_groups = 0;
  int lanes = 1;  // a group
};

Groups groups_of(const Direction& d) {
  const formats::QuantFormat& f = d.out.format;
  Groups g;
  const std::int64_t block = formats::block_size(f.grid);
  g.group_rows = block == 0 ? 1 : formats::block_rows(f);
  g.group_k = block == 0 ? kPieceElems : block;
  g.row_groups = ceil_div(d.rows, g.group_rows);
  g.k_groups = ceil_div(d.k, g.group_k);
  const std::int64_t chunks = g.group_rows * ceil_div(g.group_k, kChunk);
  while (g.lanes < kWarpSize && g.lanes < chunks) g.lanes *= 2;
  return g;
}

struct Params {
  Direction d;
  Groups g;
};

__device__ std::uint32_t lanes_max(std::uint32_t x, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

template <typename E>
__device__ void store_codes(const Direction& d, std::int64_t row, std::int64_t k, const std::uint8_t* codes, int count) {
  std::uint8_t* to = d.out.codes + row * d.out.code_stride;
  if constexpr (E::kExponentBits == 2) {
    for (int i = 0; i < count; i += 2)
      to[(k + i) / 2] = formats::pack_nibbles(codes[i], i + 1 < count ? codes[i + 1] : std::uint8_t{0});
  } else {
    for (int i = 0; i < count; ++i) to[k + i] = codes[i];
  }
}

// Squared error of a block of NVFP4 under a scale, summed by every lane of it in the order of the definition.
template <typename T>
__device__ float squared_error(const Params& p, std::int64_t row0, std::int64_t k0, std::int64_t num_rows,
                               const GroupScale& s, float prescale) {
  float sum = 0.0f;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const Chunk x = load_chunk<T>(p.d, row0 + r, k0, prescale, signs_of(p.d));
    for (int i = 0; i < x.count; ++i) {
      const std::uint8_t code = formats::nvfp4_code_nearest(x.at[i], s.byte, s.tensor_scale);
      const float value = formats::decode<formats::E2m1>(code) * formats::decode<formats::E4m3>(s.byte) * s.tensor_scale;
      sum += (value - x.at[i]) * (value - x.at[i]);
    }
  }
  return sum;
}

template <typename T, typename E>
__global__ void __launch_bounds__(kThreads) quantize_kernel(Params p) {
  const Direction& d = p.d;
  const Groups& g = p.g;
  const formats::QuantFormat& f = d.out.format;
  const int per_block = kThreads / g.lanes;
  const int lane = static_cast<int>(threadIdx.x) % g.lanes;
  const int exponent = prescale_of(d.prescale);
  const float prescale = formats::exp2_f32(exponent);
  const std::uint16_t signs = signs_of(d);
  const formats::RandomKey key{.seed = d.seed, .tensor = d.tensor, .step = step_of(d)};
  const bool measured = f.grid == ScaleGrid::kTensor || f.grid == ScaleGrid::kRow;
  const std::int64_t chunks_a_row = ceil_div(g.group_k, kChunk);
  const std::int64_t total = g.row_groups * g.k_groups;
  const bool along_rows = d.x_row == 1 && d.x_k != 1;
  if (blockIdx.x == 0 && threadIdx.x == 0 && d.out.tensor_scale != nullptr) {
    const float scale = f.grid == ScaleGrid::kNv16 ? formats::nvfp4_tensor_scale(amax_of(d, 0), f) : 1.0f;
    *d.out.tensor_scale = scale * formats::exp2_f32(-exponent);
  }
  // Lanes of a warp stay together to the end: they shuffle.
  const std::int64_t turns = ceil_div(total, static_cast<std::int64_t>(gridDim.x) * per_block);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const std::int64_t group = (turn * gridDim.x + blockIdx.x) * per_block + static_cast<int>(threadIdx.x) / g.lanes;
    // Neighbours of a group are those of its elements in memory.
    const std::int64_t row0 = (along_rows ? group % g.row_groups : group / g.k_groups) * g.group_rows;
    const std::int64_t k0 = (along_rows ? group / g.row_groups : group % g.k_groups) * g.group_k;
    const std::int64_t num_rows = group >= total ? 0 : d.rows - row0 < g.group_rows ? d.rows - row0 : g.group_rows;
    const std::int64_t chunks = num_rows * chunks_a_row;
    formats::Amax amax = 0;
    if (measured) {
      if (num_rows > 0) amax = amax_of(d, row0);
    } else {
      for (std::int64_t c = lane; c < chunks; c += g.lanes) {
        const std::int64_t k = k0 + c % chunks_a_row * kChunk;
        if (k >= d.k) continue;
        const formats::Amax m = chunk_amax(load_chunk<T>(d, row0 + c / chunks_a_row, k, prescale, signs));
        amax = m > amax ? m : amax;
      }
      amax = lanes_max(amax, g.lanes);
    }
    GroupScale s = group_scale(f, amax, amax_of(d, 0));
    if (f.four_over_six && s.byte != formats::E4m3::kNanCode) {
      GroupScale four = s;
      four.byte = formats::nvfp4_block_scale(amax, s.tensor_scale, 4.0f);
      const auto error = [&](const GroupScale& scale) { return squared_error<T>(p, row0, k0, num_rows, scale, prescale); };
      if (error(four) < error(s)) s = four;
    }
    __syncwarp();  // a group's lanes have read all of its carry before one of them writes
    for (std::int64_t c = lane; c < chunks; c += g.lanes) {
      const std::int64_t row = row0 + c / chunks_a_row;
      const std::int64_t k = k0 + c % chunks_a_row * kChunk;
      if (k >= d.k) continue;
      const Chunk x = load_chunk<T>(d, row, k, prescale, signs);
      std::uint8_t codes[kChunk] = {};
      for (int i = 0; i < x.count; ++i) {
        std::uint32_t random = 0;
        if (f.rounding == formats::Rounding::kStochastic)
          random = formats::random_bits(key, static_cast<std::uint64_t>(row * d.k + k + i));
        codes[i] = element_code<E>(f, s, x.at[i], random);
        if (d.carry != nullptr) {
          float& carry = d.carry[row * d.carry_stride + k + i];
          const float value = formats::decode<E>(codes[i]) * decode_scale(f, s) * s.tensor_scale;
          carry = to_float(static_cast<const T*>(d.x)[row * d.x_row + (k + i) * d.x_k]) + carry - value / prescale;
        }
      }
      store_codes<E>(d, row, k, codes, x.count);
      if (c % chunks_a_row != 0 || (f.grid == ScaleGrid::kTensor && (row != 0 || k0 != 0)) ||
          (f.grid == ScaleGrid::kRow && k0 != 0) || (f.grid == ScaleGrid::kBlock128 && row != row0))
        continue;
      const std::int64_t place = scale_place(d.out, d.k, row, formats::block_size(f.grid) == 0 ? 0 : k0 / g.group_k);
      if (formats::has_f32_scales(f.grid))
        static_cast<float*>(d.out.scales)[place] = s.f32;
      else
        static_cast<std::uint8_t*>(d.out.scales)[place] = s.byte;
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) measure_kernel(Params p) {
  const Direction& d = p.d;
  const std::int64_t chunks_a_row = ceil_div(d.k, kChunk);
  const float prescale = formats::exp2_f32(prescale_of(d.prescale));
  const std::uint16_t signs = signs_of(d);
  const bool by_row = d.out.format.grid == ScaleGrid::kRow;
  const bool along_rows = d.x_row == 1 && d.x_k != 1;
  formats::Amax amax = 0;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; c < d.rows * chunks_a_row;
       c += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t row = along_rows ? c % d.rows : c / chunks_a_row;
    const std::int64_t k = (along_rows ? c / d.rows : c % chunks_a_row) * kChunk;
    const formats::Amax m = chunk_amax(load_chunk<T>(d, row, k, prescale, signs));
    if (by_row)
      atomicMax(const_cast<std::uint32_t*>(d.amax) + row, m);
    else
      amax = m > amax ? m : amax;
  }
  if (by_row) return;
  amax = lanes_max(amax, kWarpSize);
  if (threadIdx.x % kWarpSize == 0) atomicMax(const_cast<std::uint32_t*>(d.amax), amax);
}

struct Zero {
  std::uint32_t* words;
  std::int64_t count;
};
__global__ void __launch_bounds__(kThreads) zero_kernel(Zero z) {
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < z.count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    z.words[i] = 0;
}

__global__ void __launch_bounds__(kThreads) zero_padding_kernel(Direction d) {
  const bool bytes = !formats::has_f32_scales(d.out.format.grid);
  const std::int64_t per_row = formats::scales_per_row(d.out.format, d.k);
  const std::int64_t padded = (per_row + 3) / 4 * 4;
  const std::int64_t rows = bytes ? (d.rows + 127) / 128 * 128 : formats::scale_rows(d.out.format, d.rows);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows * padded;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t row = i / padded;
    const std::int64_t block = i % padded;
    if (bytes) {
      if (row >= d.rows || block >= per_row)
        static_cast<std::uint8_t*>(d.out.scales)[formats::tiled_scale_offset(row, block, per_row)] = 0;
    } else if (block >= per_row) {
      static_cast<float*>(d.out.scales)[row * d.out.scale_stride + block] = 0.0f;
    }
  }
}

template <typename T>
cudaError_t quantize_direction(const Direction& d, cudaStream_t stream) {
  if (measures_amax(d.out.format) && !d.amax_given) {
    if (const cudaError_t error = launch_measure_chunks<T>(d, stream)) return error;
  }
  if (const cudaError_t error = launch_zero_scale_padding(d, stream)) return error;
  const Groups g = groups_of(d);
  const dim3 grid(grid_for(g.row_groups * g.k_groups, kThreads / g.lanes));
  const Params params{d, g};
  switch (d.out.format.element) {
    case formats::Element::kE4m3:
      return launch_kernel(quantize_kernel<T, formats::E4m3>, grid, kThreads, 0, stream, params);
    case formats::Element::kE5m2:
      return launch_kernel(quantize_kernel<T, formats::E5m2>, grid, kThreads, 0, stream, params);
    default: return launch_kernel(quantize_kernel<T, formats::E2m1>, grid, kThreads, 0, stream, params);
  }
}

}  // namespace

template <typename T>
cudaError_t launch_measure_chunks(const Direction& d, cudaStream_t stream) {
  return launch_kernel(measure_kernel<T>, dim3(grid_for(d.rows * ceil_div(d.k, kChunk), kThreads)), kThreads, 0, stream,
                       Params{d, {}});
}
template cudaError_t launch_measure_chunks<bf16>(const Direction&, cudaStream_t);
template cudaError_t launch_measure_chunks<float>(const Direction&, cudaStream_t);

cudaError_t launch_zero_scale_padding(const Direction& d, cudaStream_t stream) {
  const formats::QuantFormat& f = d.out.format;
  const std::int64_t per_row = formats::scales_per_row(f, d.k);
  const bool bytes = !formats::has_f32_scales(f.grid);
  const bool padded = per_row % 4 != 0 || (bytes && d.rows % 128 != 0);
  if (d.out.layout == formats::ScaleLayout::kRows || !padded || (!bytes && f.grid != ScaleGrid::kBlock128))
    return cudaSuccess;
  return launch_kernel(zero_padding_kernel,
                       dim3(grid_for(ceil_div(d.rows, 128) * 128 * ceil_div(per_row, 4) * 4, kThreads)), kThreads, 0,
                       stream, d);
}

cudaError_t launch_zero_words(std::uint32_t* words, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return launch_kernel(zero_kernel, dim3(grid_for(count, kThreads)), kThreads, 0, stream, Zero{words, count});
}

std::int64_t quantize_measured_words(const formats::QuantFormat& by_rows, const formats::QuantFormat& by_cols,
                                     std::int64_t rows, std::int64_t cols, bool has_amax) {
  return measured_words(by_rows, rows, has_amax) + measured_words(by_cols, cols, has_amax);
}

cudaError_t launch_quantize(const Quantize& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  const std::int64_t words = quantize_measured_words(a.by_rows.format, a.by_cols.format, a.rows, a.cols, a.amax != nullptr);
  if (const cudaError_t error = launch_zero_words(a.measured, words, stream)) return error;
  return with_float_type(a.dtype, [&]<typename T>() {
    cudaError_t error = cudaSuccess;
    if (a.by_rows.format.grid != ScaleGrid::kNone) error = quantize_direction<T>(direction_by_rows(a), stream);
    if (error == cudaSuccess && a.by_cols.format.grid != ScaleGrid::kNone)
      error = quantize_direction<T>(direction_by_cols(a), stream);
    return error;
  });
}

}  // namespace ida::cuda
