// O = softmax(scale * Q K^T + mask) V for tiles of queries; see attention_mma.h.
#include <cmath>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/attention_mma.h"
#include "backend/cuda/kernels/attention_mma_tiles.cuh"
#include "backend/cuda/kernels/attention_work.cuh"

namespace ida::cuda {
namespace {

struct ForwardParams {
  AttentionForward<bf16> args;
  AttentionSweep sweep;
  const std::uint8_t* covered = nullptr;
  float scale_log2 = 1.0f;  // scale / ln 2
  bool vector16 = false;
};

// Shared memory: tile of Q | two stages of (K, V).
template <typename Tile>
constexpr int forward_shared_bytes() {
  return Tile::kRowTileBytes + 4 * Tile::kColTileBytes;
}

template <typename Tile>
struct ForwardState {
  WarpTile<Tile::kRowBlocks, Tile::kHeadDim> o;
  float max[Tile::kRowBlocks][2];  // of the scores before scaling; -inf while nothing was seen
  float sum[Tile::kRowBlocks][2];  // of this lane's columns
};

template <typename Tile>
__device__ __forceinline__ void mask_scores(WarpTile<Tile::kRowBlocks, Tile::kCols>& s, int first_query_position,
                                            int first_key, int window) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int position = first_query_position + tile_row<Tile>(i, e / 2);
#pragma unroll
      for (int j = 0; j < Tile::kCols / 8; ++j) {
        if (!sees(position, first_key + tile_col(j, e), window)) s[i][j][e] = -INFINITY;
      }
    }
  }
}

// Turns scores into 2^(scores - max) and rescales what was summed under the old maximum.
template <typename Tile>
__device__ __forceinline__ void softmax_step(ForwardState<Tile>& state, WarpTile<Tile::kRowBlocks, Tile::kCols>& s,
                                             float scale_log2) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float max = state.max[i][h];
#pragma unroll
      for (int j = 0; j < Tile::kCols / 8; ++j) max = fmaxf(max, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
      const float shift = max == -INFINITY ? 0.0f : max * scale_log2;
      const float correction = ex2_approx(fmaf(state.max[i][h], scale_log2, -shift));
      state.max[i][h] = max;
      float sum = state.sum[i][h] * correction;
#pragma unroll
      for (int j = 0; j < Tile::kCols / 8; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[i][j][e] = ex2_approx(fmaf(s[i][j][e], scale_log2, -shift));
          sum += s[i][j][e];
        }
      }
      state.sum[i][h] = sum;
#pragma unroll
      for (int d = 0; d < Tile::kHeadDim / 8; ++d) {
        state.o[i][d][2 * h] *= correction;
        state.o[i][d][2 * h + 1] *= correction;
      }
    }
  }
}

// Divides by the sums and writes lse. A row that saw nothing: o zero, lse -inf.
template <typename Tile>
__device__ __forceinline__ void finish_rows(ForwardState<Tile>& state, const AttentionLse& lse, float scale,
                                            std::int64_t first_row, int valid, int head) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = state.sum[i][h];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
#pragma unroll
      for (int d = 0; d < Tile::kHeadDim / 8; ++d) {
        state.o[i][d][2 * h] *= inverse;
        state.o[i][d][2 * h + 1] *= inverse;
      }
      const int row = tile_row<Tile>(i, h);
      if (lse.data != nullptr && threadIdx.x % 4 == 0 && row < valid) {
        lse.data[(first_row + row) * lse.row_stride + head] =
            sum == 0.0f ? -INFINITY : fmaf(state.max[i][h], scale, lg2_approx(sum) * kLn2);
      }
    }
  }
}

// Where an item's queries are. Made again after the loop over keys, from the item in shared memory.
template <typename Tile>
struct QueryTile {
  __device__ QueryTile(const ForwardParams& p, const AttentionWorkItem& item) {
    const int first = item.tile.tile * Tile::kRows;
    valid = min_of(Tile::kRows, item.tile.segment.q_len - first);
    row = item.tile.segment.q_begin + first;
    col = static_cast<std::int64_t>(item.head) * p.args.problem.head_dim;
  }
  int valid;
  std::int64_t row;
  std::int64_t col;
};

// Tiles of keys that an item's queries see; end 0 where there are none.
template <typename Tile>
__device__ __forceinline__ IndexRange key_tiles(const AttentionWorkItem& item, int window) {
  const int first = item.tile.tile * Tile::kRows;
  const IndexRange keys =
      keys_of_queries(item.tile.segment, window, first, min_of(Tile::kRows, item.tile.segment.q_len - first));
  if (keys.begin >= keys.end) return {0, 0};
  return {keys.begin / Tile::kCols, (keys.end + Tile::kCols - 1) / Tile::kCols};
}

template <typename Tile>
__device__ __forceinline__ void load_queries(const ForwardParams& p, std::uint32_t shared, const AttentionWorkItem& item) {
  const QueryTile<Tile> q(p, item);
  load_tile<Tile::kRows, Tile::kHeadDim, Tile::kThreads>(shared, p.args.q.data + q.row * p.args.q.row_stride + q.col,
                                                         p.args.q.row_stride, q.valid, p.args.problem.head_dim, p.vector16);
}

// Keys and values of a tile into a stage.
template <typename Tile>
__device__ __forceinline__ void load_keys(const ForwardParams& p, std::uint32_t stage, const AttentionWorkItem& item,
                                          int tile) {
  const AttentionProblem& problem = p.args.problem;
  const AttentionSegment& segment = item.tile.segment;
  const std::int64_t row = segment.kv_begin + tile * Tile::kCols;
  const int valid = segment.kv_len - tile * Tile::kCols;
  const std::int64_t col =
      static_cast<std::int64_t>(item.head / (problem.num_heads / problem.num_kv_heads)) * problem.head_dim;
  load_tile<Tile::kCols, Tile::kHeadDim, Tile::kThreads>(stage, p.args.k.data + row * p.args.k.row_stride + col,
                                                         p.args.k.row_stride, valid, problem.head_dim, p.vector16);
  load_tile<Tile::kCols, Tile::kHeadDim, Tile::kThreads>(stage + Tile::kColTileBytes,
                                                         p.args.v.data + row * p.args.v.row_stride + col,
                                                         p.args.v.row_stride, valid, problem.head_dim, p.vector16);
}

template <typename Tile>
__device__ __forceinline__ void forward_item(const ForwardParams& p, std::uint32_t shared, const AttentionWorkItem& item) {
  const LaneOffsets<Tile::kHeadDim> lanes;
  const std::uint32_t q_tile =
      shared + threadIdx.x / 32 * static_cast<unsigned>(Tile::kRowsPerWarp * SharedTile<Tile::kHeadDim>::kRowBytes);
  const std::uint32_t stages = shared + Tile::kRowTileBytes;
  std::uint32_t stage = stages;

  ForwardState<Tile> state;
  clear(state.o);
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) state.max[i][h] = -INFINITY, state.sum[i][h] = 0.0f;
  }

  load_queries<Tile>(p, shared, item);
  const IndexRange tiles = key_tiles<Tile>(item, p.args.problem.window);
  if (tiles.begin < tiles.end) load_keys<Tile>(p, stage, item, tiles.begin);
#pragma unroll 1
  for (int tile = tiles.begin; tile < key_tiles<Tile>(item, p.args.problem.window).end; ++tile) {
    cp_async_wait_all();
    __syncthreads();  // this stage is complete, and everyone is done with the other one
    const std::uint32_t other_stage = 2 * stages + 2 * Tile::kColTileBytes - stage;
    if (tile + 1 < key_tiles<Tile>(item, p.args.problem.window).end) load_keys<Tile>(p, other_stage, item, tile + 1);
    WarpTile<Tile::kRowBlocks, Tile::kCols> s;
    product_over_head<Tile>(s, q_tile, stage, lanes);
    const int position = first_position(item.tile.segment) + item.tile.tile * Tile::kRows;
    const int first_key = tile * Tile::kCols;
    if (!all_see_all(position, position + Tile::kRows - 1, first_key, first_key + Tile::kCols - 1, p.args.problem.window)) {
      mask_scores<Tile>(s, position, first_key, p.args.problem.window);
    }
    softmax_step<Tile>(state, s, p.scale_log2);
    add_product_over_cols<Tile>(state.o, s, stage + Tile::kColTileBytes, lanes);
    stage = other_stage;
  }
  if (key_tiles<Tile>(item, p.args.problem.window).end ==
      0) {  // no query sees a key: Q may still be on its way to where o passes through
    cp_async_wait_all();
    __syncthreads();
  }
  const QueryTile<Tile> q(p, item);
  finish_rows<Tile>(state, p.args.lse, p.args.problem.scale, q.row, q.valid, item.head);
  store_tile<Tile>(state.o, 1.0f, shared, p.args.o.data + q.row * p.args.o.row_stride + q.col, p.args.o.row_stride, q.valid,
                   p.args.problem.head_dim, p.vector16);
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) forward_kernel(const ForwardParams p) {
  const AttentionProblem& problem = p.args.problem;
  zero_uncovered_rows(p.covered, problem.q_rows, p.args.o, problem.num_heads * problem.head_dim);
  if (p.args.lse.data != nullptr) {
    zero_uncovered_rows(p.covered, problem.q_rows, AttentionMatrix<float>{p.args.lse.data, p.args.lse.row_stride},
                        problem.num_heads);
  }
  const std::uint32_t shared = shared_address(dynamic_shared());
  for_each_attention_item(p.sweep, [&](const AttentionWorkItem& item) { forward_item<Tile>(p, shared, item); });
}

// Tiles by padded head_dim. Two row blocks a warp halve the traffic of shared memory; above 128 the output leaves
// registers for one. At most 99 KiB of shared memory, what sm_120 gives a block.
template <typename Body>
auto with_forward_tile(int head_dim, Body&& body) {
  if (head_dim <= 32) return body(AttentionTileShape<32, 4, 2, 64>{});
  if (head_dim <= 64) return body(AttentionTileShape<64, 4, 2, 64>{});
  if (head_dim <= 96) return body(AttentionTileShape<96, 4, 2, 64, 2>{});
  if (head_dim <= 128) return body(AttentionTileShape<128, 4, 2, 32, 4>{});
  if (head_dim <= 192) return body(AttentionTileShape<192, 4, 1, 32>{});
  return body(AttentionTileShape<256, 4, 1, 32>{});
}

struct ForwardWorkspace {
  ForwardWorkspace(void* base, const AttentionProblem& problem) {
    AttentionWorkspace parts(base);
    const int rows = with_forward_tile(problem.head_dim, [](auto tile) { return decltype(tile)::kRows; });
    list = parts.take_list(TileRows::kQueries, rows, problem);
    covered = parts.take<std::uint8_t>(problem.q_rows);
    size_bytes = parts.size_bytes();
  }
  AttentionList list;
  std::uint8_t* covered = nullptr;
  std::int64_t size_bytes = 0;
};

}  // namespace

std::int64_t attention_forward_mma_workspace(const AttentionProblem& problem) {
  return ForwardWorkspace(nullptr, problem).size_bytes;
}

cudaError_t attention_forward_mma(const AttentionForward<bf16>& args, cudaStream_t stream) {
  const AttentionProblem& problem = args.problem;
  if (problem.q_rows == 0) return cudaSuccess;
  const ForwardWorkspace workspace(args.workspace, problem);
  const AttentionListParams lists{
      args.segments, problem.max_segments, problem.window, problem.q_rows, workspace.covered, 1, {workspace.list, {}}};
  const cudaError_t error = build_attention_lists(lists, stream);
  if (error != cudaSuccess) return error;
  ForwardParams params;
  params.args = args;
  params.sweep = {workspace.list, 0, problem.num_heads, attention_heads_at_once(problem, problem.num_heads, sizeof(bf16))};
  params.covered = workspace.covered;
  params.scale_log2 = problem.scale * kLog2E;
  params.vector16 = rows_allow_16_bytes(problem.head_dim, args.q, args.k, args.v, args.o);
  return with_forward_tile(problem.head_dim, [&](auto shape) {
    using Tile = decltype(shape);
    static_assert(forward_shared_bytes<Tile>() <= 99 * 1024);
    return launch_kernel(forward_kernel<Tile>, dim3(static_cast<unsigned>(args.num_sms * Tile::kBlocksPerSm)),
                         Tile::kThreads, forward_shared_bytes<Tile>(), stream, params);
  });
}

}  // namespace ida::cuda
