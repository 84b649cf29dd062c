// A row is read from memory once and written once. cross_entropy_kernel keeps it in shared memory between its passes
// (maximum, sum of exponentials, gradient); rows that do not fit there, or whose elements do not pair up into 16-byte
// accesses, take streaming_kernel, whose second read comes from L2 as far as rows fit there.
//
// Exponentials are 2^(x log2(e) - max log2(e)): one fma and one ex2. ex2 is off by at most 2 units in the last place; the
// fma rounds relative to its own result, and what the rounding of max log2(e) does is the same factor for a whole row, so
// that it cancels in softmax. A probability is within 4e-7 of itself where it matters (near 1).
#include <cfloat>

#include "backend/cuda/device/arithmetic.cuh"
#include "backend/cuda/device/cp_async.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/cross_entropy.h"

namespace ida::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// sum of 2^(x log2(e) - max2) over what was seen, max2 being the largest x times log2(e).
struct Softmax {
  float max2 = -FLT_MAX;
  float sum = 0.0f;

  __device__ float exp_of(float x) const { return ex2_approx(fmaf(x, kLog2E, -max2)); }
  // Raises the maximum; what was summed is scaled to it.
  __device__ void raise(float max) {
    const float raised = fmaxf(max2, max * kLog2E);
    sum *= ex2_approx(max2 - raised);
    max2 = raised;
  }
  __device__ float log_sum() const { return fmaf(max2, kLn2, logf(sum)); }
};

__device__ Softmax warp_softmax(const Softmax& s) {
  Softmax total;
  total.max2 = warp_max(s.max2);
  total.sum = warp_sum(s.sum * ex2_approx(s.max2 - total.max2));
  return total;
}

// The whole block's, in every thread; one barrier. `shared` is not to be written again before the block's next barrier.
template <int THREADS>
__device__ Softmax block_softmax(const Softmax& mine, Softmax* shared) {
  const int lane = threadIdx.x % kWarpSize;
  const Softmax of_warp = warp_softmax(mine);
  if (lane == 0) shared[threadIdx.x / kWarpSize] = of_warp;
  __syncthreads();
  return warp_softmax(lane < THREADS / kWarpSize ? shared[lane] : Softmax{});
}

template <typename T, int N>
__device__ float max_of(const Vec<T, N>& v) {
  float max = to_float(v.at[0]);
#pragma unroll
  for (int j = 1; j < N; ++j) max = fmaxf(max, to_float(v.at[j]));
  return max;
}

// A thread copies, reads and refills the same vectors of the row, so that no barrier is needed but the one of the sum.
// A vector's place takes that of the block's next row as soon as its gradient is on the way: the next row arrives while
// this one is written. Several blocks share a multiprocessor and cover each other's barriers.
template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) cross_entropy_kernel(CrossEntropy a) {
  constexpr int N = kVecElems<T>;
  __shared__ Softmax totals[2][THREADS / kWarpSize];  // by turns
  Vec<T, N>* kept = static_cast<Vec<T, N>*>(dynamic_shared());
  const int vectors = static_cast<int>(a.vocab_size / N);
  const int thread = static_cast<int>(threadIdx.x);
  const auto row_at = [&](std::int64_t row) { return static_cast<T*>(a.logits) + row * a.logits_stride; };
  const auto label_at = [&](std::int64_t row) { return row < a.rows ? a.labels[row] : a.ignore_label; };
  const auto fetch = [&](const T* row, int v) { cp_async_16(shared_address(kept + v), row + std::int64_t{v} * N, true); };

  const float grad_scale = value_or_one(a.grad_scale);
  std::int32_t label = label_at(blockIdx.x);
  if (label != a.ignore_label)
    for (int v = thread; v < vectors; v += THREADS) fetch(row_at(blockIdx.x), v);
  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    T* x = row_at(row);
    const std::int32_t next_label = label_at(row + gridDim.x);
    const bool next_counts = next_label != a.ignore_label;
    const T* next = next_counts ? row_at(row + gridDim.x) : nullptr;
    if (label == a.ignore_label) {
      if (thread == 0) a.nll[row] = 0.0f;
      for (int v = thread; v < vectors; v += THREADS) {
        if (a.with_gradient) store_vec<N>(x + std::int64_t{v} * N, Vec<T, N>{});
        if (next_counts) fetch(next, v);
      }
      label = next_label;
      continue;
    }
    cp_async_wait_all();
    Softmax mine;
    float max = -FLT_MAX;
#pragma unroll 4
    for (int v = thread; v < vectors; v += THREADS) max = fmaxf(max, max_of(kept[v]));
    mine.raise(max);
#pragma unroll 4
    for (int v = thread; v < vectors; v += THREADS) {
      const Vec<T, N> vec = kept[v];
#pragma unroll
      for (int j = 0; j < N; ++j) mine.sum += mine.exp_of(to_float(vec.at[j]));
    }
    const bool has_label = label / N % THREADS == thread;
    const float label_logit = has_label ? to_float(reinterpret_cast<const T*>(kept)[label]) : 0.0f;
    const Softmax total = block_softmax<THREADS>(mine, totals[turn]);
    turn ^= 1;
    const float scale = grad_scale / total.sum;
#pragma unroll 4
    for (int v = thread; v < vectors; v += THREADS) {
      if (a.with_gradient) {
        Vec<T, N> vec = kept[v];
#pragma unroll
        for (int j = 0; j < N; ++j) vec.at[j] = from_float<T>(total.exp_of(to_float(vec.at[j])) * scale);
        store_vec<N>(x + std::int64_t{v} * N, vec);
      }
      if (next_counts) fetch(next, v);
    }
    if (has_label) {
      a.nll[row] = total.log_sum() - label_logit;
      if (a.with_gradient) x[label] = from_float<T>(total.exp_of(label_logit) * scale - grad_scale);
    }
    label = next_label;
  }
}

constexpr int kStreamingThreads = 512;

// A block a row, read twice.
template <typename T, int N>
__global__ void __launch_bounds__(kStreamingThreads) streaming_kernel(CrossEntropy a) {
  __shared__ Softmax totals[kStreamingThreads / kWarpSize];
  constexpr std::int64_t kStep = std::int64_t{N} * kStreamingThreads;
  const std::int64_t row = blockIdx.x;
  const std::int64_t begin = std::int64_t{N} * threadIdx.x;
  T* x = static_cast<T*>(a.logits) + row * a.logits_stride;
  const std::int32_t label = a.labels[row];
  if (label == a.ignore_label) {
    if (threadIdx.x == 0) a.nll[row] = 0.0f;
    if (!a.with_gradient) return;
    for (std::int64_t i = begin; i < a.vocab_size; i += kStep) store_vec<N>(x + i, Vec<T, N>{});
    return;
  }
  Softmax mine;
#pragma unroll 4
  for (std::int64_t i = begin; i < a.vocab_size; i += kStep) {
    const Vec<T, N> vec = load_vec<N>(x + i);
    mine.raise(max_of(vec));
#pragma unroll
    for (int j = 0; j < N; ++j) mine.sum += mine.exp_of(to_float(vec.at[j]));
  }
  const float label_logit = to_float(x[label]);  // before the gradient overwrites it: the barrier below orders the two
  const Softmax total = block_softmax<kStreamingThreads>(mine, totals);
  if (threadIdx.x == 0) a.nll[row] = total.log_sum() - label_logit;
  if (!a.with_gradient) return;
  const float grad_scale = value_or_one(a.grad_scale);
  const float scale = grad_scale / total.sum;
#pragma unroll 4
  for (std::int64_t i = begin; i < a.vocab_size; i += kStep) {
    Vec<T, N> vec = load_vec<N>(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j)
      vec.at[j] = from_float<T>(total.exp_of(to_float(vec.at[j])) * scale - (i + j == label ? grad_scale : 0.0f));
    store_vec<N>(x + i, vec);
  }
}

// What a block takes beside its row: the sums, and what the system keeps.
constexpr std::int64_t kOtherSharedBytes = 2048;

template <typename T, int THREADS>
cudaError_t launch_shared(const CrossEntropy& a, std::int64_t row_bytes, cudaStream_t stream) {
  const std::int64_t per_sm =
      std::clamp<std::int64_t>(a.shared_bytes_per_block / (row_bytes + kOtherSharedBytes), 1, 1024 / THREADS);
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(a.rows, per_sm * a.num_sms));
  return launch_kernel(cross_entropy_kernel<T, THREADS>, dim3(grid), THREADS, static_cast<int>(row_bytes), stream, a);
}

}  // namespace

cudaError_t launch_cross_entropy(DType dtype, const CrossEntropy& a, cudaStream_t stream) {
  if (a.rows == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const bool vectors = a.vocab_size % n == 0 && a.logits_stride % n == 0 && aligned_to(a.logits, 16);
    const std::int64_t row_bytes = a.vocab_size * std::int64_t{sizeof(T)};
    if (vectors && row_bytes + kOtherSharedBytes <= a.shared_bytes_per_block) {
      // 8 or more vectors a thread, so that reductions are a small part; 64 registers a thread.
      if (row_bytes <= 16 * 1024) return launch_shared<T, 128>(a, row_bytes, stream);
      if (row_bytes <= 48 * 1024) return launch_shared<T, 256>(a, row_bytes, stream);
      if (row_bytes <= 112 * 1024) return launch_shared<T, 512>(a, row_bytes, stream);
      return launch_shared<T, 1024>(a, row_bytes, stream);
    }
    const dim3 grid(static_cast<unsigned>(a.rows));
    if (vectors) return launch_kernel(streaming_kernel<T, n>, grid, kStreamingThreads, 0, stream, a);
    return launch_kernel(streaming_kernel<T, 1>, grid, kStreamingThreads, 0, stream, a);
  });
}

}  // namespace ida::cuda
