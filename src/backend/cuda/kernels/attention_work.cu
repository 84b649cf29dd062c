#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/attention_work.h"
#include "formats/bf16.h"

namespace ida::cuda {
namespace {

constexpr unsigned kFullWarp = 0xFFFFFFFFu;
constexpr int kListThreads = 1024;
constexpr int kBins = kListThreads;  // a thread per bin
constexpr int kBinPositions = 64;    // positions that one step of cost stands for
constexpr int kSegmentsAtOnce = 4;   // table rows a lane has in flight

__device__ AttentionSegment shuffle_segment(const AttentionSegment& s, int lane) {
  return {__shfl_sync(kFullWarp, s.q_begin, lane), __shfl_sync(kFullWarp, s.q_len, lane),
          __shfl_sync(kFullWarp, s.kv_begin, lane), __shfl_sync(kFullWarp, s.kv_len, lane)};
}

// Calls body(segment) for the segments in use, one warp each, its 32 lanes together.
template <typename Body>
__device__ void for_each_segment(const AttentionListParams& p, Body&& body) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  constexpr std::int64_t kStep = kListThreads * kSegmentsAtOnce;
  for (std::int64_t base = warp * 32 * kSegmentsAtOnce; base < p.max_segments; base += kStep) {
    AttentionSegment mine[kSegmentsAtOnce];
#pragma unroll
    for (int i = 0; i < kSegmentsAtOnce; ++i) {
      const std::int64_t index = base + i * 32 + lane;
      if (index < p.max_segments) mine[i] = p.segments[index];
    }
#pragma unroll
    for (int i = 0; i < kSegmentsAtOnce; ++i) {
      unsigned used = __ballot_sync(kFullWarp, mine[i].q_len > 0);
      for (; used != 0; used &= used - 1) body(shuffle_segment(mine[i], __ffs(static_cast<int>(used)) - 1));
    }
  }
}

__device__ int rows_of(const AttentionList& list, const AttentionSegment& s) {
  return list.rows == TileRows::kQueries ? s.q_len : s.kv_len;
}

// Bin of a tile, most work first.
__device__ int bin_of(const AttentionListParams& p, const AttentionList& list, const AttentionSegment& s, int tile) {
  const int first = tile * list.tile_rows;
  const int count = min_of(list.tile_rows, rows_of(list, s) - first);
  const IndexRange range = list.rows == TileRows::kQueries ? keys_of_queries(s, p.window, first, count)
                                                           : queries_of_keys(s, p.window, first, count);
  return kBins - 1 - min_of(kBins - 1, max_of(0, range.end - range.begin) / kBinPositions);
}

// Exclusive prefix sum over the block, one value a thread; `total` is the sum.
__device__ int block_prefix(int value, int& total) {
  __shared__ int warp_sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(kFullWarp, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += below;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kListThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + sum - value;
}

// Block b builds list b: a counting sort by cost. Places within a bin are given out as they come.
__global__ void __launch_bounds__(kListThreads) build_lists_kernel(const AttentionListParams p) {
  const AttentionList list = blockIdx.x == 0 ? p.lists[0] : p.lists[1];
  const bool mark = blockIdx.x == 0;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __shared__ int bins[kBins];
  bins[threadIdx.x] = 0;
  if (mark) {
    for (std::int64_t row = threadIdx.x; row < p.q_rows; row += kListThreads) p.covered[row] = 0;
  }
  __syncthreads();
  for_each_segment(p, [&](const AttentionSegment& s) {
    for (int tile = lane; tile < div_up(rows_of(list, s), list.tile_rows); tile += 32) {
      atomicAdd(&bins[bin_of(p, list, s, tile)], 1);
    }
    for (int row = lane; mark && row < s.q_len; row += 32) p.covered[s.q_begin + row] = 1;
  });
  __syncthreads();
  int count = 0;
  const int begin = block_prefix(bins[threadIdx.x], count);
  bins[threadIdx.x] = begin;
  if (threadIdx.x == 0) {
    list.state->count = min_of(count, static_cast<int>(list.capacity));
    for (int& next : list.state->next) next = 0;
  }
  __syncthreads();
  for_each_segment(p, [&](const AttentionSegment& s) {
    for (int tile = lane; tile < div_up(rows_of(list, s), list.tile_rows); tile += 32) {
      const int place = atomicAdd(&bins[bin_of(p, list, s, tile)], 1);
      if (place < list.capacity) list.tiles[place] = {s, tile, {}};
    }
  });
}

// ---- row terms ----

constexpr int kTermThreads = 256;
constexpr int kTermLanes = 8;  // lanes that share a row of a head
constexpr int kTermRows = kTermThreads / kTermLanes;

template <typename T>
struct alignas(16) EightElements {
  T v[8];
};

// Sum of a * b over `count` elements, at most 8.
template <typename T>
__device__ float dot_of_8(const T* a, const T* b, int count, bool vector16) {
  EightElements<T> x{}, y{};
  if (vector16 && count >= 8) {
    x = *reinterpret_cast<const EightElements<T>*>(a);
    y = *reinterpret_cast<const EightElements<T>*>(b);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) x.v[i] = a[i];
      if (i < count) y.v[i] = b[i];
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(to_f32(x.v[i]), to_f32(y.v[i]), sum);
  return sum;
}

// Grid [row blocks, heads].
template <typename T>
__global__ void __launch_bounds__(kTermThreads) row_terms_kernel(const AttentionRowTermsParams<T> p) {
  const int lane = static_cast<int>(threadIdx.x) % kTermLanes;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTermRows + threadIdx.x / kTermLanes;
  const int head = static_cast<int>(blockIdx.y);
  const bool inside = row < p.problem.q_rows;
  const int head_dim = p.problem.head_dim;
  float sum = 0.0f;
  if (inside) {
    const T* o = p.o.data + row * p.o.row_stride + static_cast<std::int64_t>(head) * head_dim;
    const T* grad_o = p.grad_o.data + row * p.grad_o.row_stride + static_cast<std::int64_t>(head) * head_dim;
    for (int d = lane * 8; d < head_dim; d += kTermLanes * 8) {
      sum += dot_of_8(o + d, grad_o + d, head_dim - d, p.vector16);
    }
  }
#pragma unroll
  for (int step = 1; step < kTermLanes; step *= 2) sum += __shfl_xor_sync(kFullWarp, sum, step);
  if (inside && lane == 0) {
    p.terms[head * p.problem.q_rows + row] = {p.lse.data[row * p.lse.row_stride + head] * p.lse_factor, sum};
  }
}

}  // namespace

cudaError_t build_attention_lists(const AttentionListParams& params, cudaStream_t stream) {
  return launch_kernel(build_lists_kernel, dim3(static_cast<unsigned>(params.num_lists)), kListThreads, 0, stream, params);
}

template <typename T>
cudaError_t attention_row_terms(const AttentionRowTermsParams<T>& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(div_up(params.problem.q_rows, kTermRows)),
                  static_cast<unsigned>(params.problem.num_heads));
  return launch_kernel(row_terms_kernel<T>, grid, kTermThreads, 0, stream, params);
}
template cudaError_t attention_row_terms(const AttentionRowTermsParams<float>&, cudaStream_t);
template cudaError_t attention_row_terms(const AttentionRowTermsParams<bf16>&, cudaStream_t);

}  // namespace ida::cuda
