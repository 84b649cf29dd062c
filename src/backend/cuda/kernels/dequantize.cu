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

// Threads of a block: [rows, vectors along a row], powers of two. No division is made for an element.
struct Params {
  Dequantize a;
  int log2_vecs = 0;
  int log2_block = 0;  // elements under a scale
  std::int64_t scales_a_row = 0;
};

__device__ std::int64_t scale_place(const Params& p, std::int64_t row, std::int64_t block) {
  const QuantizedMatrix& x = p.a.x;
  const bool tiled = x.layout == formats::ScaleLayout::kProduct && !formats::has_f32_scales(x.format.grid);
  return tiled ? formats::tiled_scale_offset(row, block, p.scales_a_row) : scale_place(x, p.a.cols, row, block);
}

template <typename E, bool kVectors>
__device__ void load_codes(const std::uint8_t* codes, std::int64_t k, int count, float* x) {
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
}

template <typename E, typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(Params p) {
  const Dequantize& a = p.a;
  const formats::QuantFormat& f = a.x.format;
  const bool has_f32 = formats::has_f32_scales(f.grid);
  const bool scaled_again = a.with_tensor_scale && a.x.tensor_scale != nullptr;
  const float tensor_scale = scaled_again ? *a.x.tensor_scale : 1.0f;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t k = ((std::int64_t{blockIdx.x} << p.log2_vecs) + (thread & ((1 << p.log2_vecs) - 1))) * kElems;
  if (k >= a.cols) return;
  const int count = static_cast<int>(a.cols - k < kElems ? a.cols - k : kElems);
  const std::int64_t block = k >> p.log2_block;
  const int rows_a_turn = kThreads >> p.log2_vecs;
#pragma unroll 2
  for (std::int64_t row = std::int64_t{blockIdx.y} * rows_a_turn + (thread >> p.log2_vecs); row < a.rows;
       row += static_cast<std::int64_t>(gridDim.y) * rows_a_turn) {
    float x[kElems];
    load_codes<E, kVectors>(a.x.codes + row * a.x.code_stride, k, count, x);
    const std::int64_t place = scale_place(p, row, block);
    const std::uint8_t byte = has_f32 ? std::uint8_t{0} : static_cast<const std::uint8_t*>(a.x.scales)[place];
    const float scale = has_f32                               ? static_cast<const float*>(a.x.scales)[place]
                        : f.grid == formats::ScaleGrid::kMx32 ? formats::decode_ue8m0(byte)
                                                              : formats::decode<formats::E4m3>(byte);
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
  constexpr int kLog2Threads = 8;
  constexpr std::int64_t kTurns = 4;         // of a thread
  constexpr std::int64_t kMaxGridY = 65535;  // CUDA's
  static_assert(kThreads == 1 << kLog2Threads);
  Params p{.a = a};
  while (p.log2_vecs < kLog2Threads && (std::int64_t{kElems} << p.log2_vecs) < a.cols) ++p.log2_vecs;
  const std::int64_t block = formats::block_size(a.x.format.grid);
  while (block == 0 ? p.log2_block < 62 : (std::int64_t{1} << p.log2_block) < block) ++p.log2_block;
  p.scales_a_row = formats::scales_per_row(a.x.format, a.cols);
  const std::int64_t rows_a_turn = kThreads >> p.log2_vecs;
  const dim3 grid(static_cast<unsigned>(ceil_div(a.cols, std::int64_t{kElems} << p.log2_vecs)),
                  static_cast<unsigned>(std::min(ceil_div(a.rows, rows_a_turn * kTurns), kMaxGridY)));
  return vectors ? launch_kernel(dequantize_kernel<E, T, true>, grid, kThreads, 0, stream, p)
                 : launch_kernel(dequantize_kernel<E, T, false>, grid, kThreads, 0, stream, p);
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
