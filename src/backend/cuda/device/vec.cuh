// Vector loads and stores, conversions and reductions of the memory-bound kernels.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "formats/bf16.h"

namespace ida::cuda {

inline constexpr int kWarpSize = 32;

// A factor in device memory; 1 where there is none.
__device__ inline float value_or_one(const float* factor) { return factor == nullptr ? 1.0f : *factor; }

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

// Round to nearest even.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}

// N elements that move as one access when `p` is aligned to their size (at most 16 bytes).
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T at[N];
};

// Elements of a 16-byte access.
template <typename T>
inline constexpr int kVecElems = 16 / static_cast<int>(sizeof(T));

template <int N, typename T>
__device__ inline Vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <int N, typename T>
__device__ inline void store_vec(T* p, const Vec<T, N>& v) {
  *reinterpret_cast<Vec<T, N>*>(p) = v;
}

// f(row, column) for every N neighbouring columns of a [rows, cols] matrix, shared out over a grid of blocks of THREADS;
// N divides cols.
template <int THREADS, int N, typename F>
__device__ inline void for_each_vec(std::int64_t rows, std::int64_t cols, F&& f) {
  const std::int64_t per_row = cols / N;
  const std::int64_t total = rows * per_row;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < total;
       i += static_cast<std::int64_t>(gridDim.x) * THREADS)
    f(i / per_row, i % per_row * N);
}

// Sum over the warp's lanes, the same in every lane; a fixed order.
template <typename T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

// Sum over the block, in every thread. `shared` has one element a warp; ends with a barrier before the next use is safe.
template <typename T>
__device__ inline T block_sum(T x, T* shared) {
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % kWarpSize == 0) shared[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  T total = 0;
  for (int i = 0; i < warps; ++i) total += shared[i];
  return total;
}

}  // namespace ida::cuda
