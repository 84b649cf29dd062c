// One thread an element or a group, no fusion, plain stores: on purpose. Compiled with --fmad=false: the bits are those of
// the CPU.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/quantize_steps.h"
#include "formats/block_rules.h"
#include "formats/scale_layout.h"

namespace ida::cuda {
namespace {

using formats::ScaleGrid;

constexpr int kThreads = 256;
constexpr int kTile = 32;

struct Matrix {
  const void* x;
  void* out;
  std::int64_t rows, cols;
  formats::QuantFormat format;
};

__device__ std::int64_t first_item() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::int64_t item_stride() { return static_cast<std::int64_t>(gridDim.x) * kThreads; }

// A tile of 32 x 32 through shared memory, so that both sides move whole lines.
__global__ void __launch_bounds__(kThreads) transpose_kernel(Matrix m) {
  __shared__ bf16 tile[kTile][kTile + 2];
  const auto* x = static_cast<const bf16*>(m.x);
  auto* out = static_cast<bf16*>(m.out);
  const std::int64_t tiles_a_row = ceil_div(m.cols, kTile);
  const std::int64_t row0 = blockIdx.x / tiles_a_row * kTile;
  const std::int64_t col0 = blockIdx.x % tiles_a_row * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  for (int i = first; i < kTile; i += kThreads / kTile)
    if (row0 + i < m.rows && col0 + lane < m.cols) tile[i][lane] = x[(row0 + i) * m.cols + col0 + lane];
  __syncthreads();
  for (int i = first; i < kTile; i += kThreads / kTile)
    if (col0 + i < m.cols && row0 + lane < m.rows) out[(col0 + i) * m.rows + row0 + lane] = tile[lane][i];
}

__device__ formats::Amax magnitude(bf16 x) { return static_cast<std::uint32_t>(x.bits & 0x7FFFu) << 16; }

__global__ void __launch_bounds__(kThreads) block_amax_kernel(Matrix m) {
  const auto* x = static_cast<const bf16*>(m.x);
  auto* out = static_cast<std::uint32_t*>(m.out);
  const std::int64_t block = formats::block_size(m.format.grid);
  const std::int64_t per_row = formats::scales_per_row(m.format, m.cols);
  for (std::int64_t i = first_item(); i < m.rows * per_row; i += item_stride()) {
    const std::int64_t begin = i % per_row * block;
    const std::int64_t end = begin + block < m.cols ? begin + block : m.cols;
    formats::Amax amax = 0;
    for (std::int64_t c = begin; c < end; ++c) {
      const formats::Amax one = magnitude(x[i / per_row * m.cols + c]);
      amax = one > amax ? one : amax;
    }
    out[i] = amax;
  }
}

__global__ void __launch_bounds__(kThreads) tensor_amax_kernel(Matrix m) {
  const auto* x = static_cast<const bf16*>(m.x);
  formats::Amax amax = 0;
  for (std::int64_t i = first_item(); i < m.rows * m.cols; i += item_stride()) {
    const formats::Amax one = magnitude(x[i]);
    amax = one > amax ? one : amax;
  }
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffu, amax, offset);
    amax = other > amax ? other : amax;
  }
  if (threadIdx.x % kWarpSize == 0) atomicMax(static_cast<std::uint32_t*>(m.out), amax);
}

template <typename E>
__global__ void __launch_bounds__(kThreads) quantize_kernel(StepQuantize a) {
  const std::int64_t per_row = formats::scales_per_row(a.format, a.cols);
  const std::int64_t block = formats::block_size(a.format.grid) == 0 ? a.cols : formats::block_size(a.format.grid);
  const bool nvfp4 = a.format.grid == ScaleGrid::kNv16;
  const float g = nvfp4 ? formats::nvfp4_tensor_scale(a.tensor_amax == nullptr ? 0 : *a.tensor_amax, a.format) : 1.0f;
  for (std::int64_t i = first_item(); i < a.rows * a.cols; i += item_stride()) {
    const std::int64_t row = i / a.cols;
    const std::int64_t col = i % a.cols;
    const float x = to_float(a.x[i]);
    if (a.format.grid == ScaleGrid::kTensor) {
      const formats::F32Scale s = formats::f32_scale(*a.amax, a.format.element, a.format.power_of_two_scale);
      a.codes[i] = formats::encode_nearest<E>(x * s.encode);
      if (i == 0) *static_cast<float*>(a.scales) = s.decode;
      continue;
    }
    const std::int64_t place = row * per_row + col / block;
    const std::uint8_t scale = nvfp4 ? formats::nvfp4_block_scale(a.amax[place], g, 6.0f)
                                     : formats::mx_scale(a.amax[place], a.format.element, a.format.scale_rule);
    a.codes[i] =
        nvfp4 ? formats::nvfp4_code_nearest(x, scale, g) : formats::encode_nearest<E>(x * formats::mx_encode_factor(scale));
    if (col % block == 0) static_cast<std::uint8_t*>(a.scales)[place] = scale;
  }
}

__global__ void __launch_bounds__(kThreads) pack_kernel(Matrix m) {
  const auto* x = static_cast<const std::uint8_t*>(m.x);
  for (std::int64_t i = first_item(); i < m.rows * m.cols / 2; i += item_stride())
    static_cast<std::uint8_t*>(m.out)[i] = formats::pack_nibbles(x[2 * i], x[2 * i + 1]);
}

__global__ void __launch_bounds__(kThreads) swizzle_kernel(Matrix m) {
  const auto* x = static_cast<const std::uint8_t*>(m.x);
  for (std::int64_t i = first_item(); i < formats::tiled_scale_bytes(m.rows, m.cols); i += item_stride()) {
    const formats::ScalePlace place = formats::tiled_scale_place(i, m.cols);
    const bool inside = place.row < m.rows && place.col < m.cols;
    static_cast<std::uint8_t*>(m.out)[i] = inside ? x[place.row * m.cols + place.col] : std::uint8_t{0};
  }
}

}  // namespace

cudaError_t launch_step_transpose(const bf16* x, bf16* out, std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(rows, kTile) * ceil_div(cols, kTile)));
  return launch_kernel(transpose_kernel, grid, kThreads, 0, stream, Matrix{x, out, rows, cols, {}});
}

cudaError_t launch_step_amax(const bf16* x, std::uint32_t* out, std::int64_t rows, std::int64_t cols,
                             const formats::QuantFormat& format, cudaStream_t stream) {
  const Matrix m{x, out, rows, cols, format};
  constexpr std::int64_t kItems = 32;  // of a thread
  if (format.grid == ScaleGrid::kTensor)
    return launch_kernel(tensor_amax_kernel, dim3(grid_for(rows * cols, kThreads * kItems)), kThreads, 0, stream, m);
  return launch_kernel(block_amax_kernel, dim3(grid_for(rows * formats::scales_per_row(format, cols), kThreads)), kThreads,
                       0, stream, m);
}

cudaError_t launch_step_quantize(const StepQuantize& a, cudaStream_t stream) {
  const dim3 grid(grid_for(a.rows * a.cols, kThreads));
  switch (a.format.element) {
    case formats::Element::kE4m3: return launch_kernel(quantize_kernel<formats::E4m3>, grid, kThreads, 0, stream, a);
    case formats::Element::kE5m2: return launch_kernel(quantize_kernel<formats::E5m2>, grid, kThreads, 0, stream, a);
    default: return launch_kernel(quantize_kernel<formats::E2m1>, grid, kThreads, 0, stream, a);
  }
}

cudaError_t launch_step_pack(const std::uint8_t* x, std::uint8_t* out, std::int64_t rows, std::int64_t cols,
                             cudaStream_t stream) {
  return launch_kernel(pack_kernel, dim3(grid_for(rows * cols / 2, kThreads)), kThreads, 0, stream,
                       Matrix{x, out, rows, cols, {}});
}

cudaError_t launch_step_swizzle(const std::uint8_t* x, std::uint8_t* out, std::int64_t rows, std::int64_t cols,
                                cudaStream_t stream) {
  return launch_kernel(swizzle_kernel, dim3(grid_for(formats::tiled_scale_bytes(rows, cols), kThreads)), kThreads, 0,
                       stream, Matrix{x, out, rows, cols, {}});
}

}  // namespace ida::cuda
