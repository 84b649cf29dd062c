// A block a row, two passes: a running maximum and sum of exponentials, then the gradient in place. The second read
// comes from L2 (a row of 49152 bf16 logits is 96 KiB), so device memory sees each logit read once and written once.
#include <cfloat>

#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/cross_entropy.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpSize;

// sum of exp(x - max) over what was seen, and that max.
struct Softmax {
  float max = -FLT_MAX;
  float sum = 0.0f;
  __device__ void merge(float other_max, float other_sum) {
    const float m = fmaxf(max, other_max);
    sum = sum * expf(max - m) + other_sum * expf(other_max - m);
    max = m;
  }
};

__device__ Softmax block_softmax(Softmax s, Softmax* shared) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
    s.merge(__shfl_xor_sync(0xffffffffu, s.max, offset), __shfl_xor_sync(0xffffffffu, s.sum, offset));
  if (threadIdx.x % kWarpSize == 0) shared[threadIdx.x / kWarpSize] = s;
  __syncthreads();
  Softmax total = shared[0];
  for (int i = 1; i < kWarps; ++i) total.merge(shared[i].max, shared[i].sum);
  return total;
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropy a) {
  __shared__ Softmax shared[kWarps];
  const std::int64_t row = blockIdx.x;
  T* x = static_cast<T*>(a.logits) + row * a.logits_stride;
  const std::int32_t label = a.labels[row];
  if (label == a.ignore_label) {
    if (threadIdx.x == 0) a.nll[row] = 0.0f;
    if (!a.with_gradient) return;
    for (std::int64_t i = std::int64_t{N} * threadIdx.x; i < a.vocab_size; i += std::int64_t{N} * kThreads)
      store_vec<N>(x + i, Vec<T, N>{});
    return;
  }
  Softmax mine;
  for (std::int64_t i = std::int64_t{N} * threadIdx.x; i < a.vocab_size; i += std::int64_t{N} * kThreads) {
    const Vec<T, N> v = load_vec<N>(x + i);
    float max = to_float(v.at[0]);
#pragma unroll
    for (int j = 1; j < N; ++j) max = fmaxf(max, to_float(v.at[j]));
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < N; ++j) sum += expf(to_float(v.at[j]) - max);
    mine.merge(max, sum);
  }
  const float label_logit = to_float(x[label]);  // before the gradient overwrites it: the barrier below orders the two
  const Softmax total = block_softmax(mine, shared);
  const float log_sum = total.max + logf(total.sum);
  if (threadIdx.x == 0) a.nll[row] = log_sum - label_logit;
  if (!a.with_gradient) return;
  const float grad_scale = value_or_one(a.grad_scale);
  for (std::int64_t i = std::int64_t{N} * threadIdx.x; i < a.vocab_size; i += std::int64_t{N} * kThreads) {
    Vec<T, N> v = load_vec<N>(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float p = expf(to_float(v.at[j]) - log_sum);
      v.at[j] = from_float<T>((p - (i + j == label ? 1.0f : 0.0f)) * grad_scale);
    }
    store_vec<N>(x + i, v);
  }
}

}  // namespace

cudaError_t launch_cross_entropy(DType dtype, const CrossEntropy& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(a.rows);
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    if (a.vocab_size % n == 0 && a.logits_stride % n == 0 && aligned_to(a.logits, 16))
      cross_entropy_kernel<T, n><<<grid, kThreads, 0, stream>>>(a);
    else
      cross_entropy_kernel<T, 1><<<grid, kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace ida::cuda
