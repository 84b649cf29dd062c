// The gradient is summed in ascending row order without sorting rows: rows are counted by id (integer atomics, order
// does not matter), placed in their id's bucket, each bucket is put in order, and one block adds a bucket's rows.
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/embedding.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) embedding_forward_kernel(EmbeddingForward a) {
  for_each_vec<kThreads, N>(a.rows, a.cols, [&](std::int64_t row, std::int64_t column) {
    store_vec<N>(static_cast<T*>(a.y) + row * a.y_stride + column,
                 load_vec<N>(static_cast<const T*>(a.table) + a.ids[row] * a.table_stride + column));
  });
}

// Buckets of the backward pass, in one i32 workspace.
struct Buckets {
  std::int32_t* begin;   // [vocab_size + 1] exclusive sums of the counts
  std::int32_t* filled;  // [vocab_size]
  std::int32_t* rows;    // [rows] row numbers by id
};

__global__ void __launch_bounds__(kThreads) count_kernel(const std::int32_t* ids, std::int64_t rows, std::int32_t* counts) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < rows) atomicAdd(&counts[ids[i]], 1);
}

// counts[0, size) -> exclusive sums in place, counts[size] = total; one block.
constexpr int kScanThreads = 1024;
__global__ void __launch_bounds__(kScanThreads) exclusive_scan_kernel(std::int32_t* counts, std::int64_t size) {
  __shared__ std::int32_t warp_totals[kScanThreads / kWarpSize];
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  std::int32_t carry = 0;
  for (std::int64_t base = 0; base < size; base += kScanThreads) {
    const std::int64_t i = base + threadIdx.x;
    const std::int32_t value = i < size ? counts[i] : 0;
    std::int32_t inclusive = value;
    for (int offset = 1; offset < kWarpSize; offset *= 2) {
      const std::int32_t other = __shfl_up_sync(0xffffffffu, inclusive, offset);
      if (lane >= offset) inclusive += other;
    }
    if (lane == kWarpSize - 1) warp_totals[warp] = inclusive;
    __syncthreads();
    std::int32_t before = carry;
    std::int32_t total = 0;
    for (int k = 0; k < kScanThreads / kWarpSize; ++k) {
      if (k < warp) before += warp_totals[k];
      total += warp_totals[k];
    }
    if (i < size) counts[i] = before + inclusive - value;
    carry += total;
    __syncthreads();
  }
  if (threadIdx.x == 0) counts[size] = carry;
}

__global__ void __launch_bounds__(kThreads) place_kernel(const std::int32_t* ids, std::int64_t rows, Buckets b) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows) return;
  const std::int32_t id = ids[i];
  b.rows[b.begin[id] + atomicAdd(&b.filled[id], 1)] = static_cast<std::int32_t>(i);
}

// Position of each element of a small bucket = how many of the bucket are smaller; at most kSmallBucket elements.
constexpr int kSmallBucket = kThreads;
__device__ void order_small_bucket(std::int32_t* rows, int count, std::int32_t* shared) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) shared[i] = rows[i];
  __syncthreads();
  if (i >= count) return;
  int rank = 0;
  for (int k = 0; k < count; ++k) rank += shared[k] < shared[i] ? 1 : 0;
  rows[rank] = shared[i];
}

// A large bucket is written again by one ordered walk over all ids.
__device__ void collect_large_bucket(const std::int32_t* ids, std::int64_t num_rows, std::int32_t id, std::int32_t* rows,
                                     std::int32_t* shared) {
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  std::int64_t written = 0;
  for (std::int64_t base = 0; base < num_rows; base += kThreads) {
    const std::int64_t i = base + threadIdx.x;
    const bool mine = i < num_rows && ids[i] == id;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    if (lane == 0) shared[warp] = __popc(votes);
    __syncthreads();
    std::int64_t before = written;
    for (int k = 0; k < kThreads / kWarpSize; ++k) {
      if (k < warp) before += shared[k];
      written += shared[k];
    }
    if (mine) rows[before + __popc(votes & ((1u << lane) - 1u))] = static_cast<std::int32_t>(i);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    order_buckets_kernel(const std::int32_t* ids, std::int64_t num_rows, std::int64_t vocab_size, Buckets b) {
  __shared__ std::int32_t shared[kSmallBucket];
  for (std::int64_t id = blockIdx.x; id < vocab_size; id += gridDim.x) {
    const std::int32_t begin = b.begin[id];
    const std::int32_t count = b.begin[id + 1] - begin;
    if (count <= 1) continue;
    __syncthreads();
    if (count <= kSmallBucket)
      order_small_bucket(b.rows + begin, count, shared);
    else
      collect_large_bucket(ids, num_rows, static_cast<std::int32_t>(id), b.rows + begin, shared);
  }
}

// Sums a bucket's rows, kUnroll loads in flight, added in order.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_buckets_kernel(EmbeddingBackward a, Buckets b) {
  constexpr int kUnroll = 8;
  const float scale = value_or_one(a.scale);
  for (std::int64_t id = blockIdx.x; id < a.vocab_size; id += gridDim.x) {
    const std::int32_t begin = b.begin[id];
    const std::int32_t end = b.begin[id + 1];
    if (begin == end) continue;
    for (std::int64_t column = threadIdx.x; column < a.cols; column += kThreads) {
      const T* grad = static_cast<const T*>(a.grad_y) + column;
      float sum = 0.0f;
      std::int32_t k = begin;
      for (; k + kUnroll <= end; k += kUnroll) {
        float values[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) values[u] = to_float(grad[b.rows[k + u] * a.grad_y_stride]);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) sum += values[u];
      }
      for (; k < end; ++k) sum += to_float(grad[b.rows[k] * a.grad_y_stride]);
      a.grad_table[id * a.grad_table_stride + column] += scale * sum;
    }
  }
}

}  // namespace

cudaError_t launch_embedding_forward(DType dtype, const EmbeddingForward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    if (a.cols % n == 0 && a.table_stride % n == 0 && a.y_stride % n == 0 && aligned_to(a.table, 16) && aligned_to(a.y, 16))
      embedding_forward_kernel<T, n><<<grid_for(a.rows * a.cols / n, kThreads), kThreads, 0, stream>>>(a);
    else
      embedding_forward_kernel<T, 1><<<grid_for(a.rows * a.cols, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

std::int64_t embedding_backward_workspace(std::int64_t rows, std::int64_t vocab_size) { return 2 * vocab_size + 1 + rows; }

cudaError_t launch_embedding_backward(DType dtype, const EmbeddingBackward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  const Buckets buckets{
      .begin = a.workspace, .filled = a.workspace + a.vocab_size + 1, .rows = a.workspace + 2 * a.vocab_size + 1};
  const auto counters = static_cast<std::size_t>(2 * a.vocab_size + 1) * sizeof(std::int32_t);
  if (const cudaError_t error = cudaMemsetAsync(a.workspace, 0, counters, stream); error != cudaSuccess) return error;
  const unsigned row_grid = grid_for(a.rows, kThreads);
  const unsigned id_grid = grid_for(a.vocab_size, 1);
  count_kernel<<<row_grid, kThreads, 0, stream>>>(a.ids, a.rows, buckets.begin);
  exclusive_scan_kernel<<<1, kScanThreads, 0, stream>>>(buckets.begin, a.vocab_size);
  place_kernel<<<row_grid, kThreads, 0, stream>>>(a.ids, a.rows, buckets);
  order_buckets_kernel<<<id_grid, kThreads, 0, stream>>>(a.ids, a.rows, a.vocab_size, buckets);
  return with_float_type(dtype, [&]<typename T>() {
    add_buckets_kernel<T><<<id_grid, kThreads, 0, stream>>>(a, buckets);
    return cudaGetLastError();
  });
}

}  // namespace ida::cuda
