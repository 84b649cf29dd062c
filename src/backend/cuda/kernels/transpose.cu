#include "backend/cuda/kernels/transpose.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = kThreads / kTile;

__global__ void __launch_bounds__(kThreads)
    transpose_f32(const float* __restrict__ in, float* __restrict__ out, std::int64_t rows, std::int64_t cols) {
  __shared__ float tile[kTile][kTile + 1];
  const std::int64_t base = std::int64_t{blockIdx.z} * rows * cols;
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile, col = std::int64_t{blockIdx.y} * kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  for (int i = y; i < kTile; i += kTileRows) {
    if (row + i < rows && col + x < cols) tile[i][x] = in[base + (row + i) * cols + col + x];
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kTileRows) {
    if (col + i < cols && row + x < rows) out[base + (col + i) * rows + row + x] = tile[x][i];
  }
}

unsigned ceil_div(std::int64_t a, std::int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

cudaError_t launch_transpose_f32(const float* in, float* out, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                 cudaStream_t stream) {
  const dim3 grid(ceil_div(rows, kTile), ceil_div(cols, kTile), static_cast<unsigned>(batch));
  transpose_f32<<<grid, kThreads, 0, stream>>>(in, out, rows, cols);
  return cudaGetLastError();
}

}  // namespace ida::cuda
