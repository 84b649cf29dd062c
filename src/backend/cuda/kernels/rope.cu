// A thread rotates N neighbouring pairs of one head: two accesses of N elements, N of cos and of sin.
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/rope.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) rope_kernel(Rope a) {
  const std::int64_t half = a.rotary_dim / 2;
  const std::int64_t per_head = half / N;
  const std::int64_t per_row = a.num_heads * per_head;
  const std::int64_t total = a.rows * per_row;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < total;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t row = i / per_row;
    const std::int64_t head = i % per_row / per_head;
    const std::int64_t pair = i % per_head * N;
    T* low = static_cast<T*>(a.x) + row * a.x_stride + head * a.head_dim + pair;
    T* high = low + half;
    const std::int64_t table = a.positions[row] * half + pair;
    Vec<T, N> x0 = load_vec<N>(low);
    Vec<T, N> x1 = load_vec<N>(high);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float c = a.cos[table + j];
      const float s = a.inverse ? -a.sin[table + j] : a.sin[table + j];
      const float v0 = to_float(x0.at[j]);
      const float v1 = to_float(x1.at[j]);
      x0.at[j] = from_float<T>(v0 * c - v1 * s);
      x1.at[j] = from_float<T>(v1 * c + v0 * s);
    }
    store_vec<N>(low, x0);
    store_vec<N>(high, x1);
  }
}

}  // namespace

cudaError_t launch_rope(DType dtype, const Rope& a, cudaStream_t stream) {
  if (a.rows == 0 || a.num_heads == 0 || a.rotary_dim == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const std::int64_t half = a.rotary_dim / 2;
    const bool vectors = half % n == 0 && a.head_dim % n == 0 && a.x_stride % n == 0 && aligned_to(a.x, 16);
    const std::int64_t items = a.rows * a.num_heads * half / (vectors ? n : 1);
    if (vectors)
      rope_kernel<T, n><<<grid_for(items, kThreads), kThreads, 0, stream>>>(a);
    else
      rope_kernel<T, 1><<<grid_for(items, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace ida::cuda
