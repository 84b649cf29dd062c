// element * scale, times the tensor's. A thread, eight neighbouring elements. Compiled with --fmad=false.
#include "backend/cuda/device/convert.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/quantize_matrix.cuh"

namespace ida::cuda {
namespace {

using formats::E2m1;

constexpr int kThreads = 256;
constexpr int kElems = 8;

// e2m1, eight of them: the code's bits are those of an f32 that is 2^126 times too small.
__device__ void widen_e2m1(std::uint32_t codes, float* x) {
#pragma unroll
  for (int i = 0; i < kElems; ++i) {
    const std::uint32_t code = codes >> 4 * i;
    x[i] = std::bit_cast<float>((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
  }
}

template <typename E, typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(Dequantize a) {
  const formats::QuantFormat& f = a.x.format;
  const std::int64_t per_row = ceil_div(a.cols, kElems);
  const std::int64_t block = formats::block_size(f.grid);
  const bool has_f32 = formats::has_f32_scales(f.grid);
  const bool scaled_again = a.with_tensor_scale && a.x.tensor_scale != nullptr;
  const float tensor_scale = scaled_again ? *a.x.tensor_scale : 1.0f;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < a.rows * per_row;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t row = i / per_row;
    const std::int64_t k = i % per_row * kElems;
    const int count = static_cast<int>(a.cols - k < kElems ? a.cols - k : kElems);
    const std::uint8_t* codes = a.x.codes + row * a.x.code_stride;
    const std::int64_t place = scale_place(a.x, a.cols, row, block == 0 ? 0 : k / block);
    const std::uint8_t byte = has_f32 ? std::uint8_t{0} : static_cast<const std::uint8_t*>(a.x.scales)[place];
    const float scale = has_f32                               ? static_cast<const float*>(a.x.scales)[place]
                        : f.grid == formats::ScaleGrid::kMx32 ? formats::decode_ue8m0(byte)
                                                              : formats::decode<formats::E4m3>(byte);
    float x[kElems];
    if constexpr (!kVectors) {
      for (int j = 0; j < count; ++j) {
        const std::int64_t at = k + j;
        x[j] = E::kExponentBits == 2 ? formats::decode<E>(formats::nibble(codes[at / 2], static_cast<int>(at % 2)))
                                     : formats::decode<E>(codes[at]);
      }
    } else if constexpr (E::kExponentBits == 2) {
      widen_e2m1(*reinterpret_cast<const std::uint32_t*>(codes + k / 2), x);
    } else {
      const Vec<std::uint32_t, 2> words = load_vec<2>(reinterpret_cast<const std::uint32_t*>(codes + k));
#pragma unroll
      for (int j = 0; j < kElems; j += 2) {
        const std::uint32_t pair = cvt_f16x2<E>(words.at[j / 4] >> j % 4 * 8);
        x[j] = f16_low(pair);
        x[j + 1] = f16_high(pair);
      }
    }
    T* y = static_cast<T*>(a.y) + row * a.y_stride + k;
    Vec<T, kElems> out;
#pragma unroll
    for (int j = 0; j < kElems; ++j) {
      if (!kVectors && j >= count) break;
      const float value = x[j] * scale;
      out.at[j] = from_float<T>(scaled_again ? value * tensor_scale : value);
      if (!kVectors) y[j] = out.at[j];
    }
    if constexpr (kVectors) {
      constexpr int n = kVecElems<T>;
#pragma unroll
      for (int j = 0; j < kElems; j += n) store_vec<n>(y + j, *reinterpret_cast<const Vec<T, n>*>(out.at + j));
    }
  }
}

template <typename E, typename T>
cudaError_t dequantize(const Dequantize& a, cudaStream_t stream) {
  const int code_bytes = kElems * (E::kExponentBits == 2 ? 4 : 8) / 8;
  const bool vectors = a.cols % kElems == 0 && a.x.code_stride % code_bytes == 0 && aligned_to(a.x.codes, code_bytes) &&
                       a.y_stride % kVecElems<T> == 0 && aligned_to(a.y, 16);
  const dim3 grid(grid_for(a.rows * ceil_div(a.cols, kElems), kThreads));
  return vectors ? launch_kernel(dequantize_kernel<E, T, true>, grid, kThreads, 0, stream, a)
                 : launch_kernel(dequantize_kernel<E, T, false>, grid, kThreads, 0, stream, a);
}

}  // namespace

cudaError_t launch_dequantize(const Dequantize& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(a.dtype, [&]<typename T>() {
    switch (a.x.format.element) {
      case formats::Element::kE4m3: return dequantize<formats::E4m3, T>(a, stream);
      case formats::Element::kE5m2: return dequantize<formats::E5m2, T>(a, stream);
      default: return dequantize<E2m1, T>(a, stream);
    }
  });
}

}  // namespace ida::cuda
