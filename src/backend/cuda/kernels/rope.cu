// A thread rotates N neighbouring pairs of one head: two accesses of N elements of x; cos and sin, which every head of a
// row reads again, come from the caches by 16 bytes.
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/rope.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

// N elements of a table, by 16 bytes where N allows.
template <int N>
__device__ void load_table(const float* p, float (&out)[N]) {
  constexpr int kStep = N < 4 ? N : 4;
#pragma unroll
  for (int j = 0; j < N; j += kStep) {
    const Vec<float, kStep> v = load_vec<kStep>(p + j);
#pragma unroll
    for (int k = 0; k < kStep; ++k) out[j + k] = v.at[k];
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) rope_kernel(Rope a) {
  const int half = static_cast<int>(a.rotary_dim / 2);
  const int per_head = half / N;
  const int per_row = static_cast<int>(a.num_heads) * per_head;
  const std::int64_t total = a.rows * per_row;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < total;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t row = i / per_row;
    const int in_row = static_cast<int>(i - row * per_row);
    const int head = in_row / per_head;
    const int pair = (in_row - head * per_head) * N;
    T* low = static_cast<T*>(a.x) + row * a.x_stride + head * a.head_dim + pair;
    T* high = low + half;
    Vec<T, N> x0 = load_vec<N>(low);
    Vec<T, N> x1 = load_vec<N>(high);
    const std::int64_t table = std::int64_t{a.positions[row]} * half + pair;
    float cos[N];
    float sin[N];
    load_table<N>(a.cos + table, cos);
    load_table<N>(a.sin + table, sin);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float c = cos[j];
      const float s = a.inverse ? -sin[j] : sin[j];
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
    const bool vectors = half % n == 0 && a.head_dim % n == 0 && a.x_stride % n == 0 && aligned_to(a.x, 16) &&
                         aligned_to(a.cos, 16) && aligned_to(a.sin, 16);
    const std::int64_t items = a.rows * a.num_heads * half / (vectors ? n : 1);
    if (vectors)
      rope_kernel<T, n><<<grid_for(items, kThreads), kThreads, 0, stream>>>(a);
    else
      rope_kernel<T, 1><<<grid_for(items, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace ida::cuda
