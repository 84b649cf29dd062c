#include <cmath>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/kernels/attention_f32.h"
#include "backend/cuda/kernels/attention_work.cuh"
#include "formats/bf16.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 8;  // lanes that share a row
constexpr int kRows = kThreads / kLanes;
constexpr int kCols = 16;
constexpr int kColsPerLane = kCols / kLanes;
constexpr int kScorePitch = kCols + 1;
// By elements of the head a lane keeps: heads above 128 fill the shared memory, and want more registers.
constexpr int blocks_per_sm(int elements) { return elements <= 16 ? 2 : 1; }

// Odd, so that equal elements of consecutive rows lie in different banks.
constexpr int pitch_of(int head_dim) { return head_dim | 1; }

// `row_tiles` and `col_tiles` matrices of the head, and one of scores.
constexpr int shared_bytes(int head_dim, int row_tiles, int col_tiles) {
  return ((row_tiles * kRows + col_tiles * kCols) * pitch_of(head_dim) + kRows * kScorePitch) * 4;
}

__device__ int lane_row() { return static_cast<int>(threadIdx.x) / kLanes; }
__device__ int lane_col() { return static_cast<int>(threadIdx.x) % kLanes; }

// Rows of one head from `source` (element 0 of the first row) as f32; rows from `valid` on are zero.
template <typename T>
__device__ void load_rows(float* tile, int rows, const T* source, std::int64_t row_stride, int valid, int head_dim) {
  for (int row = lane_row(); row < rows; row += kRows) {
    for (int d = lane_col(); d < head_dim; d += kLanes) {
      tile[row * pitch_of(head_dim) + d] = row < valid ? to_f32(source[row * row_stride + d]) : 0.0f;
    }
  }
}

template <typename T>
__device__ const T* head_at(const AttentionMatrix<const T>& matrix, std::int64_t row, int head, int head_dim) {
  return matrix.data + row * matrix.row_stride + static_cast<std::int64_t>(head) * head_dim;
}
template <typename T>
__device__ T* head_at(const AttentionMatrix<T>& matrix, std::int64_t row, int head, int head_dim) {
  return matrix.data + row * matrix.row_stride + static_cast<std::int64_t>(head) * head_dim;
}

// s[i] = row . column (lane_col + 8 i)
__device__ void scores(float (&s)[kColsPerLane], const float* rows, const float* cols, int head_dim) {
  const int pitch = pitch_of(head_dim);
  const float* row = rows + lane_row() * pitch;
  const float* col = cols + lane_col() * pitch;
  for (int i = 0; i < kColsPerLane; ++i) s[i] = 0.0f;
  for (int d = 0; d < head_dim; ++d) {
#pragma unroll
    for (int i = 0; i < kColsPerLane; ++i) s[i] = fmaf(row[d], col[i * kLanes * pitch + d], s[i]);
  }
}

// acc += weights of the row times the columns' elements of this lane. The lanes of a row are in one warp.
template <int kElements>
__device__ void add_weighted(float (&acc)[kElements], float* weights, const float (&w)[kColsPerLane], const float* cols,
                             int head_dim) {
  float* row = weights + lane_row() * kScorePitch;
  __syncwarp();  // others may still read the weights before these
#pragma unroll
  for (int i = 0; i < kColsPerLane; ++i) row[lane_col() + i * kLanes] = w[i];
  __syncwarp();
  for (int j = 0; j < kCols; ++j) {
    const float* col = cols + j * pitch_of(head_dim);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int d = lane_col() + e * kLanes;
      if (d < head_dim) acc[e] = fmaf(row[j], col[d], acc[e]);
    }
  }
}

template <typename T, int kElements>
__device__ void store_row(T* target, const float (&acc)[kElements], float factor, int head_dim) {
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const int d = lane_col() + e * kLanes;
    if (d < head_dim) target[d] = from_f32<T>(acc[e] * factor);
  }
}

// ---- forward ----

template <typename T>
struct ForwardParams {
  AttentionForward<T> args;
  AttentionSweep sweep;
  const std::uint8_t* covered = nullptr;
};

template <typename T, int kElements>
__device__ void forward_item(const ForwardParams<T>& p, float* shared, const AttentionWorkItem& item) {
  const AttentionProblem& problem = p.args.problem;
  const AttentionSegment segment = item.tile.segment;
  const int head_dim = problem.head_dim;
  float* q_tile = shared;
  float* k_tile = q_tile + kRows * pitch_of(head_dim);
  float* v_tile = k_tile + kCols * pitch_of(head_dim);
  float* weights = v_tile + kCols * pitch_of(head_dim);
  const int first = item.tile.tile * kRows;
  const int valid = min_of(kRows, segment.q_len - first);
  const IndexRange keys = keys_of_queries(segment, problem.window, first, valid);
  const int position = first_position(segment) + first + lane_row();
  const int kv_head = item.head / (problem.num_heads / problem.num_kv_heads);
  load_rows(q_tile, kRows, head_at(p.args.q, segment.q_begin + first, item.head, head_dim), p.args.q.row_stride, valid,
            head_dim);
  float acc[kElements] = {};
  float max = -INFINITY;
  float sum = 0.0f;
  for (int key = keys.begin / kCols * kCols; key < keys.end; key += kCols) {
    __syncthreads();
    load_rows(k_tile, kCols, head_at(p.args.k, segment.kv_begin + key, kv_head, head_dim), p.args.k.row_stride,
              segment.kv_len - key, head_dim);
    load_rows(v_tile, kCols, head_at(p.args.v, segment.kv_begin + key, kv_head, head_dim), p.args.v.row_stride,
              segment.kv_len - key, head_dim);
    __syncthreads();
    float s[kColsPerLane];
    scores(s, q_tile, k_tile, head_dim);
    float new_max = max;
#pragma unroll
    for (int i = 0; i < kColsPerLane; ++i) {
      s[i] = sees(position, key + lane_col() + i * kLanes, problem.window) ? s[i] * problem.scale : -INFINITY;
      new_max = fmaxf(new_max, s[i]);
    }
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) new_max = fmaxf(new_max, __shfl_xor_sync(0xFFFFFFFFu, new_max, step));
    const float shift = new_max == -INFINITY ? 0.0f : new_max;
    const float correction = expf(max - shift);
    max = new_max;
    sum *= correction;
#pragma unroll
    for (int i = 0; i < kColsPerLane; ++i) {
      s[i] = expf(s[i] - shift);
      sum += s[i];
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) acc[e] *= correction;
    add_weighted(acc, weights, s, v_tile, head_dim);
  }
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  if (lane_row() >= valid) return;
  const std::int64_t row = segment.q_begin + first + lane_row();
  store_row(head_at(p.args.o, row, item.head, head_dim), acc, sum == 0.0f ? 0.0f : 1.0f / sum, head_dim);
  if (p.args.lse.data != nullptr && lane_col() == 0) {
    p.args.lse.data[row * p.args.lse.row_stride + item.head] = sum == 0.0f ? -INFINITY : max + logf(sum);
  }
}

template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads, blocks_per_sm(kElements)) forward_kernel(const ForwardParams<T> p) {
  const AttentionProblem& problem = p.args.problem;
  zero_uncovered_rows(p.covered, problem.q_rows, p.args.o, problem.num_heads * problem.head_dim);
  if (p.args.lse.data != nullptr) {
    zero_uncovered_rows(p.covered, problem.q_rows, AttentionMatrix<float>{p.args.lse.data, p.args.lse.row_stride},
                        problem.num_heads);
  }
  float* shared = static_cast<float*>(dynamic_shared());
  for_each_attention_item(p.sweep, [&](const AttentionWorkItem& item) { forward_item<T, kElements>(p, shared, item); });
}

// ---- backward ----

template <typename T>
struct BackwardParams {
  AttentionBackward<T> args;
  AttentionSweep sweep;
  const std::uint8_t* covered = nullptr;
  const AttentionRowTerms* terms = nullptr;  // [num_heads, q_rows]
};

// Score and its gradient for the lane's columns: s <- P, ds <- P (dP - delta).
__device__ void score_gradient(float& s, float& ds, float scale, const AttentionRowTerms& terms, bool seen) {
  s = seen ? expf(fmaf(s, scale, -terms.lse)) : 0.0f;
  ds = seen ? s * (ds - terms.delta) : 0.0f;
}

template <typename T, int kElements>
__device__ void grad_q_item(const BackwardParams<T>& p, float* shared, const AttentionWorkItem& item) {
  const AttentionProblem& problem = p.args.problem;
  const AttentionSegment segment = item.tile.segment;
  const int head_dim = problem.head_dim;
  const int pitch = pitch_of(head_dim);
  float* q_tile = shared;
  float* grad_o_tile = q_tile + kRows * pitch;
  float* k_tile = grad_o_tile + kRows * pitch;
  float* v_tile = k_tile + kCols * pitch;
  float* weights = v_tile + kCols * pitch;
  const int first = item.tile.tile * kRows;
  const int valid = min_of(kRows, segment.q_len - first);
  const IndexRange keys = keys_of_queries(segment, problem.window, first, valid);
  const int position = first_position(segment) + first + lane_row();
  const int kv_head = item.head / (problem.num_heads / problem.num_kv_heads);
  const std::int64_t first_row = segment.q_begin + first;
  load_rows(q_tile, kRows, head_at(p.args.q, first_row, item.head, head_dim), p.args.q.row_stride, valid, head_dim);
  load_rows(grad_o_tile, kRows, head_at(p.args.grad_o, first_row, item.head, head_dim), p.args.grad_o.row_stride, valid,
            head_dim);
  const bool exists = lane_row() < valid;
  AttentionRowTerms terms;
  if (exists) terms = p.terms[item.head * problem.q_rows + first_row + lane_row()];
  float acc[kElements] = {};
  for (int key = keys.begin / kCols * kCols; key < keys.end; key += kCols) {
    __syncthreads();
    load_rows(k_tile, kCols, head_at(p.args.k, segment.kv_begin + key, kv_head, head_dim), p.args.k.row_stride,
              segment.kv_len - key, head_dim);
    load_rows(v_tile, kCols, head_at(p.args.v, segment.kv_begin + key, kv_head, head_dim), p.args.v.row_stride,
              segment.kv_len - key, head_dim);
    __syncthreads();
    float s[kColsPerLane], ds[kColsPerLane];
    scores(s, q_tile, k_tile, head_dim);
    scores(ds, grad_o_tile, v_tile, head_dim);
#pragma unroll
    for (int i = 0; i < kColsPerLane; ++i) {
      score_gradient(s[i], ds[i], problem.scale, terms,
                     exists && sees(position, key + lane_col() + i * kLanes, problem.window));
    }
    add_weighted(acc, weights, ds, k_tile, head_dim);
  }
  if (!exists) return;
  store_row(head_at(p.args.grad_q, first_row + lane_row(), item.head, head_dim), acc, problem.scale, head_dim);
}

template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads, blocks_per_sm(kElements)) grad_q_kernel(const BackwardParams<T> p) {
  zero_uncovered_rows(p.covered, p.args.problem.q_rows, p.args.grad_q, p.args.problem.num_heads * p.args.problem.head_dim);
  float* shared = static_cast<float*>(dynamic_shared());
  for_each_attention_item(p.sweep, [&](const AttentionWorkItem& item) { grad_q_item<T, kElements>(p, shared, item); });
}

template <typename T, int kElements>
__device__ void grad_kv_item(const BackwardParams<T>& p, float* shared, const AttentionWorkItem& item) {
  const AttentionProblem& problem = p.args.problem;
  const AttentionSegment segment = item.tile.segment;
  const int head_dim = problem.head_dim;
  const int pitch = pitch_of(head_dim);
  float* k_tile = shared;
  float* v_tile = k_tile + kRows * pitch;
  float* q_tile = v_tile + kRows * pitch;
  float* grad_o_tile = q_tile + kCols * pitch;
  float* weights = grad_o_tile + kCols * pitch;
  const int first = item.tile.tile * kRows;
  const int valid = min_of(kRows, segment.kv_len - first);
  const IndexRange queries = queries_of_keys(segment, problem.window, first, valid);
  const int group = problem.num_heads / problem.num_kv_heads;
  const std::int64_t first_row = segment.kv_begin + first;
  load_rows(k_tile, kRows, head_at(p.args.k, first_row, item.head, head_dim), p.args.k.row_stride, valid, head_dim);
  load_rows(v_tile, kRows, head_at(p.args.v, first_row, item.head, head_dim), p.args.v.row_stride, valid, head_dim);
  float grad_k[kElements] = {};
  float grad_v[kElements] = {};
  for (int head = item.head * group; head < (item.head + 1) * group; ++head) {
    for (int query = queries.begin / kCols * kCols; query < queries.end; query += kCols) {
      const std::int64_t row = segment.q_begin + query;
      __syncthreads();
      load_rows(q_tile, kCols, head_at(p.args.q, row, head, head_dim), p.args.q.row_stride, segment.q_len - query,
                head_dim);
      load_rows(grad_o_tile, kCols, head_at(p.args.grad_o, row, head, head_dim), p.args.grad_o.row_stride,
                segment.q_len - query, head_dim);
      __syncthreads();
      float s[kColsPerLane], ds[kColsPerLane];
      scores(s, k_tile, q_tile, head_dim);
      scores(ds, v_tile, grad_o_tile, head_dim);
#pragma unroll
      for (int i = 0; i < kColsPerLane; ++i) {
        const int col = lane_col() + i * kLanes;
        const bool seen =
            query + col < segment.q_len && sees(first_position(segment) + query + col, first + lane_row(), problem.window);
        AttentionRowTerms terms;
        if (seen) terms = p.terms[head * problem.q_rows + row + col];
        score_gradient(s[i], ds[i], problem.scale, terms, seen);
      }
      add_weighted(grad_v, weights, s, grad_o_tile, head_dim);
      add_weighted(grad_k, weights, ds, q_tile, head_dim);
    }
  }
  if (lane_row() >= valid) return;
  store_row(head_at(p.args.grad_k, first_row + lane_row(), item.head, head_dim), grad_k, problem.scale, head_dim);
  store_row(head_at(p.args.grad_v, first_row + lane_row(), item.head, head_dim), grad_v, 1.0f, head_dim);
}

template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads, blocks_per_sm(kElements)) grad_kv_kernel(const BackwardParams<T> p) {
  const int cols = p.args.problem.num_kv_heads * p.args.problem.head_dim;
  zero_uncovered_rows(p.covered, p.args.problem.q_rows, p.args.grad_k, cols);
  zero_uncovered_rows(p.covered, p.args.problem.q_rows, p.args.grad_v, cols);
  float* shared = static_cast<float*>(dynamic_shared());
  for_each_attention_item(p.sweep, [&](const AttentionWorkItem& item) { grad_kv_item<T, kElements>(p, shared, item); });
}

// ---- host ----

struct Workspace {
  Workspace(void* base, const AttentionProblem& problem, bool backward) {
    AttentionWorkspace parts(base);
    q_list = parts.take_list(TileRows::kQueries, kRows, problem);
    covered = parts.take<std::uint8_t>(problem.q_rows);
    if (backward) {
      k_list = parts.take_list(TileRows::kKeys, kRows, problem);
      terms = parts.take<AttentionRowTerms>(problem.num_heads * problem.q_rows);
    }
    size_bytes = parts.size_bytes();
  }
  AttentionList q_list, k_list;
  std::uint8_t* covered = nullptr;
  AttentionRowTerms* terms = nullptr;
  std::int64_t size_bytes = 0;
};

// Calls body(elements of the head a lane keeps).
template <typename Body>
cudaError_t with_elements(int head_dim, Body&& body) {
  if (head_dim <= 64) return body(std::integral_constant<int, 64 / kLanes>{});
  if (head_dim <= 128) return body(std::integral_constant<int, 128 / kLanes>{});
  return body(std::integral_constant<int, kAttentionF32MaxHeadDim / kLanes>{});
}

dim3 persistent_grid(int num_sms, int elements) { return dim3(static_cast<unsigned>(num_sms * blocks_per_sm(elements))); }

}  // namespace

std::int64_t attention_forward_f32_workspace(const AttentionProblem& problem) {
  return Workspace(nullptr, problem, false).size_bytes;
}
std::int64_t attention_backward_f32_workspace(const AttentionProblem& problem) {
  return Workspace(nullptr, problem, true).size_bytes;
}

template <typename T>
cudaError_t attention_forward_f32(const AttentionForward<T>& args, cudaStream_t stream) {
  const AttentionProblem& problem = args.problem;
  if (problem.q_rows == 0) return cudaSuccess;
  const Workspace workspace(args.workspace, problem, false);
  const AttentionListParams lists{
      args.segments, problem.max_segments, problem.window, problem.q_rows, workspace.covered, 1, {workspace.q_list, {}}};
  const cudaError_t error = build_attention_lists(lists, stream);
  if (error != cudaSuccess) return error;
  const ForwardParams<T> params{
      args,
      {workspace.q_list, 0, problem.num_heads, attention_heads_at_once(problem, problem.num_heads, sizeof(T))},
      workspace.covered};
  return with_elements(problem.head_dim, [&](auto elements) {
    return launch_kernel(forward_kernel<T, decltype(elements)::value>, persistent_grid(args.num_sms, elements), kThreads,
                         shared_bytes(problem.head_dim, 1, 2), stream, params);
  });
}

template <typename T>
cudaError_t attention_backward_f32(const AttentionBackward<T>& args, cudaStream_t stream) {
  const AttentionProblem& problem = args.problem;
  if (problem.q_rows == 0) return cudaSuccess;
  const Workspace workspace(args.workspace, problem, true);
  const AttentionListParams lists{args.segments,
                                  problem.max_segments,
                                  problem.window,
                                  problem.q_rows,
                                  workspace.covered,
                                  2,
                                  {workspace.q_list, workspace.k_list}};
  cudaError_t error = build_attention_lists(lists, stream);
  if (error != cudaSuccess) return error;
  error = attention_row_terms(
      AttentionRowTermsParams<T>{problem, args.o, args.grad_o, args.lse, 1.0f, false, workspace.terms}, stream);
  if (error != cudaSuccess) return error;
  const int heads_at_once = attention_heads_at_once(problem, problem.num_heads, sizeof(T));
  BackwardParams<T> params{
      args, {workspace.q_list, 0, problem.num_heads, heads_at_once}, workspace.covered, workspace.terms};
  static_assert(shared_bytes(kAttentionF32MaxHeadDim, 2, 2) <= 99 * 1024, "what sm_120 gives a block");
  return with_elements(problem.head_dim, [&](auto elements) {
    constexpr int kElements = decltype(elements)::value;
    const int shared = shared_bytes(problem.head_dim, 2, 2);
    const cudaError_t failed = launch_kernel(grad_q_kernel<T, kElements>, persistent_grid(args.num_sms, kElements),
                                             kThreads, shared, stream, params);
    if (failed != cudaSuccess) return failed;
    params.sweep = {workspace.k_list, 0, problem.num_kv_heads, heads_at_once * problem.num_kv_heads / problem.num_heads};
    return launch_kernel(grad_kv_kernel<T, kElements>, persistent_grid(args.num_sms, kElements), kThreads, shared, stream,
                         params);
  });
}

template cudaError_t attention_forward_f32(const AttentionForward<float>&, cudaStream_t);
template cudaError_t attention_forward_f32(const AttentionForward<bf16>&, cudaStream_t);
template cudaError_t attention_backward_f32(const AttentionBackward<float>&, cudaStream_t);
template cudaError_t attention_backward_f32(const AttentionBackward<bf16>&, cudaStream_t);

}  // namespace ida::cuda
