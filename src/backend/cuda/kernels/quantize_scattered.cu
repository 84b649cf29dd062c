// The columns' codes straight from registers to the transposed matrix: a warp's store goes to 32 rows of it, a byte each.
// Kept to be timed beside quantize_tile.cuh, which does the same by whole lines. Compiled with --fmad=false.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/quantize_chunk.cuh"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlock = 32;

// A thread, a block of a column.
template <typename E>
__global__ void __launch_bounds__(kThreads) quantize_scattered_kernel(Direction d) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= d.rows * (d.k / kBlock)) return;
  const std::int64_t row = item % d.rows;
  const std::int64_t block = item / d.rows;
  const auto* x = static_cast<const bf16*>(d.x) + row * d.x_row + block * kBlock * d.x_k;
  float v[kBlock];
  formats::Amax amax = 0;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    v[i] = to_float(x[i * d.x_k]);
    const formats::Amax m = formats::magnitude_bits(v[i]);
    amax = m > amax ? m : amax;
  }
  const GroupScale s = group_scale(d.out.format, amax, 0);
  static_cast<std::uint8_t*>(d.out.scales)[scale_place(d.out, d.k, row, block)] = s.byte;
  if (item == 0 && d.out.tensor_scale != nullptr) *d.out.tensor_scale = 1.0f;
  std::uint8_t* to = d.out.codes + row * d.out.code_stride;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const std::uint8_t code = element_code<E>(d.out.format, s, v[i], 0);
    const std::int64_t k = block * kBlock + i;
    if constexpr (E::kExponentBits == 2) {
      if (i % 2 == 0) to[k / 2] = formats::pack_nibbles(code, element_code<E>(d.out.format, s, v[i + 1], 0));
    } else {
      to[k] = code;
    }
  }
}

}  // namespace

cudaError_t launch_quantize_scattered(const Quantize& a, cudaStream_t stream) {
  const Direction d = direction_by_cols(a);
  const dim3 grid(grid_for(d.rows * (d.k / kBlock), kThreads));
  switch (d.out.format.element) {
    case formats::Element::kE4m3:
      return launch_kernel(quantize_scattered_kernel<formats::E4m3>, grid, kThreads, 0, stream, d);
    case formats::Element::kE5m2:
      return launch_kernel(quantize_scattered_kernel<formats::E5m2>, grid, kThreads, 0, stream, d);
    default: return launch_kernel(quantize_scattered_kernel<formats::E2m1>, grid, kThreads, 0, stream, d);
  }
}

}  // namespace ida::cuda
