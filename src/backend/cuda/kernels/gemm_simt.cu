#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/gemm_simt.h"

namespace ida::cuda {
namespace {

constexpr int kTile = 64;      // rows and columns of C a block
constexpr int kTileK = 16;     // of k a turn
constexpr int kPerThread = 4;  // rows and columns a thread
constexpr int kThreads = (kTile / kPerThread) * (kTile / kPerThread);

template <typename A, typename B, typename C>
__global__ void __launch_bounds__(kThreads) gemm_simt_kernel(GemmSimt g) {
  __shared__ float a_tile[kTileK][kTile + 1];
  __shared__ float b_tile[kTileK][kTile + 1];
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t col0 = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int ty = static_cast<int>(threadIdx.x) / (kTile / kPerThread);
  const int tx = static_cast<int>(threadIdx.x) % (kTile / kPerThread);
  const A* a = static_cast<const A*>(g.a);
  const B* b = static_cast<const B*>(g.b);
  float sum[kPerThread][kPerThread] = {};
  for (std::int64_t k0 = 0; k0 < g.k; k0 += kTileK) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileK; i += kThreads) {
      // Neighbouring threads read neighbouring addresses in either layout.
      const int a_row = g.a_transposed ? i % kTile : i / kTileK;
      const int a_k = g.a_transposed ? i / kTile : i % kTileK;
      const std::int64_t ar = row0 + a_row;
      const std::int64_t ak = k0 + a_k;
      a_tile[a_k][a_row] =
          ar < g.m && ak < g.k ? to_float(g.a_transposed ? a[ak * g.a_stride + ar] : a[ar * g.a_stride + ak]) : 0.0f;
      const int b_col = g.b_transposed ? i / kTileK : i % kTile;
      const int b_k = g.b_transposed ? i % kTileK : i / kTile;
      const std::int64_t bc = col0 + b_col;
      const std::int64_t bk = k0 + b_k;
      b_tile[b_k][b_col] =
          bc < g.n && bk < g.k ? to_float(g.b_transposed ? b[bc * g.b_stride + bk] : b[bk * g.b_stride + bc]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTileK; ++k) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) sum[i][j] += a_tile[k][ty * kPerThread + i] * b_tile[k][tx * kPerThread + j];
      }
    }
    __syncthreads();
  }
  const float alpha = value_or_one(g.alpha);
  for (int i = 0; i < kPerThread; ++i) {
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t row = row0 + ty * kPerThread + i;
      const std::int64_t col = col0 + tx * kPerThread + j;
      if (row >= g.m || col >= g.n) continue;
      C* c = static_cast<C*>(g.c) + row * g.c_stride + col;
      float value = alpha * sum[i][j];
      if (g.bias != nullptr) value += to_float(static_cast<const B*>(g.bias)[col]);
      if (g.accumulate) value += to_float(*c);
      if (g.residual != nullptr) value += to_float(static_cast<const C*>(g.residual)[row * g.residual_stride + col]);
      *c = from_float<C>(value);
    }
  }
}

}  // namespace

cudaError_t launch_gemm_simt(DType a_dtype, DType b_dtype, DType c_dtype, const GemmSimt& g, cudaStream_t stream) {
  if (g.m * g.n == 0) return cudaSuccess;
  const dim3 grid(grid_for(g.n, kTile), grid_for(g.m, kTile));
  return with_float_type(a_dtype, [&]<typename A>() {
    return with_float_type(b_dtype, [&]<typename B>() {
      return with_float_type(
          c_dtype, [&]<typename C>() { return launch_kernel(gemm_simt_kernel<A, B, C>, grid, kThreads, 0, stream, g); });
    });
  });
}

}  // namespace ida::cuda
