// Two launches for all tensors: a sum a block, then a tensor's block sums. Bytes: every element once.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/sum_squares.h"
#include "backend/cuda/kernels/tensor_ranges.cuh"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElems = 4;
constexpr int kSumThreads = 1024;

__device__ double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

__global__ void __launch_bounds__(kThreads) sum_squares_kernel(SumSquares a) {
  __shared__ double shared[kThreads / kWarpSize];
  const TensorRange range = a.ranges[tensor_of_block(a.ranges, a.num_tensors, blockIdx.x)];
  const std::int64_t begin = (static_cast<std::int64_t>(blockIdx.x) - range.first_block) * kRangeBlock;
  const float* x = a.x + range.offset + begin;
  const std::int64_t size = range.size - begin < kRangeBlock ? range.size - begin : kRangeBlock;
  double sum = 0.0;
  if (size == kRangeBlock && reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
    constexpr int kTurns = static_cast<int>(kRangeBlock) / (kThreads * kElems);
    Vec<float, kElems> v[kTurns];
#pragma unroll
    for (int t = 0; t < kTurns; ++t) v[t] = load_vec<kElems>(x + (t * kThreads + static_cast<int>(threadIdx.x)) * kElems);
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
#pragma unroll
      for (int i = 0; i < kElems; ++i) sum += square(v[t].at[i]);
    }
  } else {
    for (std::int64_t i = threadIdx.x; i < size; i += kThreads) sum += square(x[i]);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSumThreads) sum_partials_kernel(SumSquares a) {
  __shared__ double shared[kSumThreads / kWarpSize];
  const TensorRange range = a.ranges[blockIdx.x];
  const double* partials = a.partials + range.first_block;
  const std::int64_t count = (range.size + kRangeBlock - 1) / kRangeBlock;
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += partials[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) a.result[blockIdx.x] = sum;
}

}  // namespace

cudaError_t launch_sum_squares(const SumSquares& a, cudaStream_t stream) {
  if (a.num_tensors == 0) return cudaSuccess;
  if (a.num_blocks > 0) {
    const dim3 grid(static_cast<unsigned>(a.num_blocks));
    const cudaError_t error = launch_kernel(sum_squares_kernel, grid, kThreads, 0, stream, a);
    if (error != cudaSuccess) return error;
  }
  return launch_kernel(sum_partials_kernel, dim3(static_cast<unsigned>(a.num_tensors)), kSumThreads, 0, stream, a);
}

}  // namespace ida::cuda
