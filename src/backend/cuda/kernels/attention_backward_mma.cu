// Gradients of attention for tiles of keys (dK, dV) and tiles of queries (dQ); see attention_mma.h.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/kernels/attention_mma.h"
#include "backend/cuda/kernels/attention_mma_tiles.cuh"
#include "backend/cuda/kernels/attention_work.cuh"

namespace ida::cuda {
namespace {

struct BackwardParams {
  AttentionBackward<bf16> args;
  AttentionSweep sweep;
  const std::uint8_t* covered = nullptr;
  const AttentionRowTerms* terms = nullptr;  // [num_heads, q_rows], lse in units of log2
  float scale_log2 = 1.0f;                   // scale / ln 2
  bool vector16 = false;
};

// What a kernel computes. kQ: its rows are queries and keys stream past; the others: its rows are keys, queries stream.
enum class Grad : std::uint8_t { kQ, kK, kV, kKV };
template <Grad kGrad>
inline constexpr bool kRowsAreKeys = kGrad != Grad::kQ;
template <Grad kGrad>
inline constexpr bool kNeedsScoreGrad = kGrad != Grad::kV;  // dP and dS
template <Grad kGrad>
inline constexpr bool kNeedsGradV = kGrad == Grad::kV || kGrad == Grad::kKV;

// Shared memory: rows of the first operand (Q or K) | of the second (dO or V) | two stages of streamed tiles (K, V or
// Q, dO) | two stages of row terms.
template <typename Tile>
constexpr int backward_shared_bytes() {
  return 2 * Tile::kRowTileBytes + 4 * Tile::kColTileBytes + 2 * Tile::kCols * static_cast<int>(sizeof(AttentionRowTerms));
}

// One head of a packed matrix.
struct HeadRows {
  const bf16* data = nullptr;
  std::int64_t row_stride = 0;
};

__device__ __forceinline__ HeadRows head_rows(const AttentionMatrix<const bf16>& matrix, std::int64_t row, int head,
                                              int head_dim) {
  return {matrix.data + row * matrix.row_stride + static_cast<std::int64_t>(head) * head_dim, matrix.row_stride};
}

template <int kRows, typename Tile>
__device__ __forceinline__ void load_rows(const BackwardParams& p, std::uint32_t tile, const HeadRows& rows, int valid) {
  load_tile<kRows, Tile::kHeadDim, Tile::kThreads>(tile, rows.data, rows.row_stride, valid, p.args.problem.head_dim,
                                                   p.vector16);
}

// The tile that an item's rows are, and the (head, tile) steps of what streams past it.
template <typename Tile, Grad kGrad>
struct Steps {
  __device__ Steps(const BackwardParams& p, const AttentionWorkItem& item) {
    const AttentionSegment& s = item.tile.segment;
    const int group = p.args.problem.num_heads / p.args.problem.num_kv_heads;
    first_row = item.tile.tile * Tile::kRows;
    valid = min_of(Tile::kRows, (kRowsAreKeys<kGrad> ? s.kv_len : s.q_len) - first_row);
    const IndexRange range = kRowsAreKeys<kGrad> ? queries_of_keys(s, p.args.problem.window, first_row, valid)
                                                 : keys_of_queries(s, p.args.problem.window, first_row, valid);
    const bool any = range.begin < range.end;
    tiles = {range.begin / Tile::kCols, any ? (range.end + Tile::kCols - 1) / Tile::kCols : range.begin / Tile::kCols};
    first_head = kRowsAreKeys<kGrad> ? item.head * group : item.head;
    heads = kRowsAreKeys<kGrad> ? group : 1;
    kv_head = kRowsAreKeys<kGrad> ? item.head : item.head / group;
    row = first_row + (kRowsAreKeys<kGrad> ? s.kv_begin : s.q_begin);
  }
  __device__ bool any() const { return tiles.begin < tiles.end; }
  __device__ bool contains(int head) const { return any() && head < first_head + heads; }
  int first_row;     // from the segment's first
  int valid;         // rows of the tile that exist
  IndexRange tiles;  // of what streams
  int first_head;    // of queries
  int heads;         // passes over `tiles`
  int kv_head;
  std::int64_t row;  // in the matrices
};

// Stages step (head, tile): Q, dO and their row terms, or K and V.
template <typename Tile, Grad kGrad>
__device__ __forceinline__ void load_step(const BackwardParams& p, std::uint32_t stage, std::uint32_t terms,
                                          const AttentionWorkItem& item, int head, int tile) {
  const AttentionSegment& s = item.tile.segment;
  const AttentionProblem& problem = p.args.problem;
  const int first = tile * Tile::kCols;
  if constexpr (kRowsAreKeys<kGrad>) {
    const std::int64_t row = s.q_begin + first;
    const int valid = s.q_len - first;
    load_rows<Tile::kCols, Tile>(p, stage, head_rows(p.args.q, row, head, problem.head_dim), valid);
    load_rows<Tile::kCols, Tile>(p, stage + Tile::kColTileBytes, head_rows(p.args.grad_o, row, head, problem.head_dim),
                                 valid);
    const int i = static_cast<int>(threadIdx.x);
    if (i < Tile::kCols) {
      const AttentionRowTerms* from = p.terms + head * problem.q_rows + row;
      cp_async_small<8>(terms + static_cast<std::uint32_t>(i) * 8, i < valid ? from + i : from, i < valid);
    }
  } else {
    const std::int64_t row = s.kv_begin + first;
    const int kv_head = head / (problem.num_heads / problem.num_kv_heads);
    load_rows<Tile::kCols, Tile>(p, stage, head_rows(p.args.k, row, kv_head, problem.head_dim), s.kv_len - first);
    load_rows<Tile::kCols, Tile>(p, stage + Tile::kColTileBytes, head_rows(p.args.v, row, kv_head, problem.head_dim),
                                 s.kv_len - first);
  }
}

// Row terms as the lane meets them: by its rows where rows are queries, by column where columns are.
template <typename Tile, Grad kGrad>
struct Terms {
  AttentionRowTerms of_row[Tile::kRowBlocks][2];
  std::uint32_t of_cols = 0;  // address of this lane's first column

  __device__ __forceinline__ void load_row_terms(const BackwardParams& p, const Steps<Tile, kGrad>& steps) {
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = tile_row<Tile>(i, h);
        of_row[i][h] = {};
        if (row < steps.valid) {
          of_row[i][h] = p.terms[steps.first_head * p.args.problem.q_rows + steps.row + row];
        }
      }
    }
  }
};

template <Grad kGrad>
__device__ __forceinline__ bool pair_sees(int row, int col, int offset, int window) {
  return kRowsAreKeys<kGrad> ? sees(offset + col, row, window) : sees(offset + row, col, window);
}

// s <- P = 2^(scale_log2 s - lse), 0 where the mask hides; with kScoreGrad, dp <- P (dp - delta).
template <typename Tile, Grad kGrad>
__device__ __forceinline__ void probabilities(WarpTile<Tile::kRowBlocks, Tile::kCols>& s, const Terms<Tile, kGrad>& terms,
                                              float scale_log2) {
#pragma unroll
  for (int j = 0; j < Tile::kCols / 8; ++j) {
    float lse[2] = {};
    if constexpr (kRowsAreKeys<kGrad>) {
      const float4 cols = load_shared_float4(terms.of_cols + static_cast<std::uint32_t>(j) * 64);
      lse[0] = cols.x;
      lse[1] = cols.z;
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[i][j][e] =
            ex2_approx(fmaf(s[i][j][e], scale_log2, kRowsAreKeys<kGrad> ? -lse[e % 2] : -terms.of_row[i][e / 2].lse));
      }
    }
  }
}

template <typename Tile, Grad kGrad>
__device__ __forceinline__ void score_grads(WarpTile<Tile::kRowBlocks, Tile::kCols>& ds,
                                            const WarpTile<Tile::kRowBlocks, Tile::kCols>& p,
                                            const Terms<Tile, kGrad>& terms) {
#pragma unroll
  for (int j = 0; j < Tile::kCols / 8; ++j) {
    float delta[2] = {};
    if constexpr (kRowsAreKeys<kGrad>) {
      const float4 cols = load_shared_float4(terms.of_cols + static_cast<std::uint32_t>(j) * 64);
      delta[0] = cols.y;
      delta[1] = cols.w;
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ds[i][j][e] = p[i][j][e] * (ds[i][j][e] - (kRowsAreKeys<kGrad> ? delta[e % 2] : terms.of_row[i][e / 2].delta));
      }
    }
  }
}

template <typename Tile, Grad kGrad>
__device__ __forceinline__ void mask_probabilities(WarpTile<Tile::kRowBlocks, Tile::kCols>& s, int first_row, int first_col,
                                                   int offset, int window) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int j = 0; j < Tile::kCols / 8; ++j) {
        const int row = first_row + tile_row<Tile>(i, e / 2);
        if (!pair_sees<kGrad>(row, first_col + tile_col(j, e), offset, window)) s[i][j][e] = 0.0f;
      }
    }
  }
}

// Whether no pair of the two tiles is hidden.
template <typename Tile, Grad kGrad>
__device__ __forceinline__ bool whole_tile_visible(int first_row, int first_col, int offset, int window) {
  const int last_row = first_row + Tile::kRows - 1;
  const int last_col = first_col + Tile::kCols - 1;
  return kRowsAreKeys<kGrad> ? all_see_all(offset + first_col, offset + last_col, first_row, last_row, window)
                             : all_see_all(offset + first_row, offset + last_row, first_col, last_col, window);
}

template <typename Tile, Grad kGrad>
struct Accumulators {
  WarpTile<kGrad == Grad::kV ? 1 : Tile::kRowBlocks, Tile::kHeadDim> first;    // dQ or dK
  WarpTile<kNeedsGradV<kGrad> ? Tile::kRowBlocks : 1, Tile::kHeadDim> grad_v;  // unused ones never take registers
};

template <typename Tile, Grad kGrad>
__device__ __forceinline__ void store_grads(const BackwardParams& p, const Accumulators<Tile, kGrad>& acc,
                                            std::uint32_t shared, const AttentionWorkItem& item) {
  const Steps<Tile, kGrad> steps(p, item);
  const int head = kRowsAreKeys<kGrad> ? steps.kv_head : steps.first_head;
  const auto store = [&](const auto& values, float factor, std::uint32_t tile, const AttentionMatrix<bf16>& grad) {
    bf16* target = grad.data + steps.row * grad.row_stride + static_cast<std::int64_t>(head) * p.args.problem.head_dim;
    store_tile<Tile>(values, factor, tile, target, grad.row_stride, steps.valid, p.args.problem.head_dim, p.vector16);
  };
  if constexpr (kNeedsScoreGrad<kGrad>) {
    store(acc.first, p.args.problem.scale, shared, kRowsAreKeys<kGrad> ? p.args.grad_k : p.args.grad_q);
  }
  if constexpr (kNeedsGradV<kGrad>) store(acc.grad_v, 1.0f, shared + Tile::kRowTileBytes, p.args.grad_v);
}

template <typename Tile, Grad kGrad>
__device__ __forceinline__ void load_row_tiles(const BackwardParams& p, std::uint32_t shared,
                                               const Steps<Tile, kGrad>& steps) {
  const int head = kRowsAreKeys<kGrad> ? steps.kv_head : steps.first_head;
  const int head_dim = p.args.problem.head_dim;
  load_rows<Tile::kRows, Tile>(p, shared, head_rows(kRowsAreKeys<kGrad> ? p.args.k : p.args.q, steps.row, head, head_dim),
                               steps.valid);
  if constexpr (kNeedsScoreGrad<kGrad>) {
    load_rows<Tile::kRows, Tile>(p, shared + Tile::kRowTileBytes,
                                 head_rows(kRowsAreKeys<kGrad> ? p.args.v : p.args.grad_o, steps.row, head, head_dim),
                                 steps.valid);
  }
}

template <typename Tile, Grad kGrad>
__device__ __forceinline__ void backward_item(const BackwardParams& p, std::uint32_t shared,
                                              const AttentionWorkItem& item) {
  const LaneOffsets<Tile::kHeadDim> lanes;
  const std::uint32_t rows = threadIdx.x / 32 * static_cast<unsigned>(Tile::kRowsPerWarp * Tile::kHeadDim * 2);
  const std::uint32_t stages = shared + 2 * Tile::kRowTileBytes;
  const std::uint32_t term_stages = stages + 4 * Tile::kColTileBytes;
  constexpr std::uint32_t kTermBytes = Tile::kCols * sizeof(AttentionRowTerms);

  Accumulators<Tile, kGrad> acc;
  if constexpr (kNeedsScoreGrad<kGrad>) clear(acc.first);
  if constexpr (kNeedsGradV<kGrad>) clear(acc.grad_v);
  Terms<Tile, kGrad> terms;
  int head, tile;  // of this step; what else a step needs is made again from the item, which spares registers
  {
    const Steps<Tile, kGrad> steps(p, item);
    head = steps.first_head;
    tile = steps.tiles.begin;
    load_row_tiles<Tile, kGrad>(p, shared, steps);
    if (steps.any()) load_step<Tile, kGrad>(p, stages, term_stages, item, head, tile);
    if constexpr (!kRowsAreKeys<kGrad>) terms.load_row_terms(p, steps);
  }
  unsigned odd = 0;  // stage of this step
#pragma unroll 1
  while (Steps<Tile, kGrad>(p, item).contains(head)) {
    cp_async_wait_all();
    __syncthreads();  // this stage is complete, and everyone is done with the other one
    const int first_col = tile * Tile::kCols;
    {
      const Steps<Tile, kGrad> steps(p, item);
      if (++tile == steps.tiles.end) {
        tile = steps.tiles.begin;
        ++head;
      }
      if (steps.contains(head)) {
        load_step<Tile, kGrad>(p, stages + (odd ^ 1) * (2 * Tile::kColTileBytes), term_stages + (odd ^ 1) * kTermBytes,
                               item, head, tile);
      }
    }
    const std::uint32_t first_tile = stages + odd * (2 * Tile::kColTileBytes);
    const std::uint32_t second_tile = first_tile + Tile::kColTileBytes;
    terms.of_cols = term_stages + odd * kTermBytes + threadIdx.x % 4 * 16;

    WarpTile<Tile::kRowBlocks, Tile::kCols> s;
    product_over_head<Tile>(s, shared + rows, first_tile, lanes);
    probabilities<Tile, kGrad>(s, terms, p.scale_log2);
    const int first_row = item.tile.tile * Tile::kRows;
    const int offset = first_position(item.tile.segment);
    if (!whole_tile_visible<Tile, kGrad>(first_row, first_col, offset, p.args.problem.window)) {
      mask_probabilities<Tile, kGrad>(s, first_row, first_col, offset, p.args.problem.window);
    }
    if constexpr (kNeedsGradV<kGrad>) add_product_over_cols<Tile>(acc.grad_v, s, second_tile, lanes);
    if constexpr (kNeedsScoreGrad<kGrad>) {
      WarpTile<Tile::kRowBlocks, Tile::kCols> ds;
      product_over_head<Tile>(ds, shared + Tile::kRowTileBytes + rows, second_tile, lanes);
      score_grads<Tile, kGrad>(ds, s, terms);
      add_product_over_cols<Tile>(acc.first, ds, first_tile, lanes);
    }
    odd ^= 1;
  }
  if (!Steps<Tile, kGrad>(p, item)
           .any()) {  // nothing streams: the rows may still be on their way to where the gradients pass through
    cp_async_wait_all();
    __syncthreads();
  }
  store_grads<Tile, kGrad>(p, acc, shared, item);
}

template <typename Tile, Grad kGrad>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) backward_kernel(const BackwardParams p) {
  const AttentionProblem& problem = p.args.problem;
  if constexpr (kGrad == Grad::kQ) {
    zero_uncovered_rows(p.covered, problem.q_rows, p.args.grad_q, problem.num_heads * problem.head_dim);
  } else {
    const int cols = problem.num_kv_heads * problem.head_dim;
    if constexpr (kNeedsScoreGrad<kGrad>) zero_uncovered_rows(p.covered, problem.q_rows, p.args.grad_k, cols);
    if constexpr (kNeedsGradV<kGrad>) zero_uncovered_rows(p.covered, problem.q_rows, p.args.grad_v, cols);
  }
  const std::uint32_t shared = shared_address(dynamic_shared());
  for_each_attention_item(p.sweep, [&](const AttentionWorkItem& item) { backward_item<Tile, kGrad>(p, shared, item); });
}

template <typename Tile, Grad kGrad>
cudaError_t launch_backward(const BackwardParams& params, cudaStream_t stream) {
  static_assert(backward_shared_bytes<Tile>() <= 99 * 1024, "what sm_120 gives a block");
  return launch_kernel(backward_kernel<Tile, kGrad>, dim3(static_cast<unsigned>(params.args.num_sms * Tile::kBlocksPerSm)),
                       Tile::kThreads, backward_shared_bytes<Tile>(), stream, params);
}

// Tiles by padded head_dim: of queries for dQ, of keys for dK and dV.
template <typename QTile_, typename KTile_>
struct TilePair {
  using QTile = QTile_;
  using KTile = KTile_;
};

template <typename Body>
auto with_backward_tiles(int head_dim, Body&& body) {
  if (head_dim <= 32) return body(TilePair<AttentionTileShape<32, 4, 2, 64>, AttentionTileShape<32, 4, 2, 48>>{});
  if (head_dim <= 64) return body(TilePair<AttentionTileShape<64, 4, 2, 64, 2>, AttentionTileShape<64, 4, 2, 32, 2>>{});
  if (head_dim <= 96) return body(TilePair<AttentionTileShape<96, 4, 2, 32>, AttentionTileShape<96, 4, 1, 64, 3>>{});
  if (head_dim <= 128) return body(TilePair<AttentionTileShape<128, 4, 1, 64>, AttentionTileShape<128, 4, 1, 64, 2>>{});
  if (head_dim <= 192) return body(TilePair<AttentionTileShape<192, 4, 1, 32>, AttentionTileShape<192, 4, 1, 32>>{});
  return body(TilePair<AttentionTileShape<256, 4, 1, 16>, AttentionTileShape<256, 4, 1, 16>>{});
}

struct BackwardWorkspace {
  BackwardWorkspace(void* base, const AttentionProblem& problem) {
    AttentionWorkspace parts(base);
    with_backward_tiles(problem.head_dim, [&](auto pair) {
      q_list = parts.take_list(TileRows::kQueries, decltype(pair)::QTile::kRows, problem);
      k_list = parts.take_list(TileRows::kKeys, decltype(pair)::KTile::kRows, problem);
    });
    covered = parts.take<std::uint8_t>(problem.q_rows);
    terms = parts.take<AttentionRowTerms>(problem.num_heads * problem.q_rows);
    size_bytes = parts.size_bytes();
  }
  AttentionList q_list, k_list;
  std::uint8_t* covered = nullptr;
  AttentionRowTerms* terms = nullptr;
  std::int64_t size_bytes = 0;
};

template <typename Pair>
cudaError_t launch_sweeps(BackwardParams params, const BackwardWorkspace& workspace, cudaStream_t stream) {
  using KTile = typename Pair::KTile;
  const AttentionProblem& problem = params.args.problem;
  const int q_heads_at_once = attention_heads_at_once(problem, problem.num_heads, sizeof(bf16));
  const int kv_heads_at_once = q_heads_at_once * problem.num_kv_heads / problem.num_heads;
  params.sweep = {workspace.k_list, 0, problem.num_kv_heads, kv_heads_at_once};
  cudaError_t error;
  if constexpr (KTile::kHeadDim <= 128) {
    error = launch_backward<KTile, Grad::kKV>(params, stream);
  } else {
    error = launch_backward<KTile, Grad::kV>(params, stream);
    if (error != cudaSuccess) return error;
    params.sweep.sweep = 1;
    error = launch_backward<KTile, Grad::kK>(params, stream);
  }
  if (error != cudaSuccess) return error;
  params.sweep = {workspace.q_list, 0, problem.num_heads, q_heads_at_once};
  return launch_backward<typename Pair::QTile, Grad::kQ>(params, stream);
}

}  // namespace

std::int64_t attention_backward_mma_workspace(const AttentionProblem& problem) {
  return BackwardWorkspace(nullptr, problem).size_bytes;
}

cudaError_t attention_backward_mma(const AttentionBackward<bf16>& args, cudaStream_t stream) {
  const AttentionProblem& problem = args.problem;
  if (problem.q_rows == 0) return cudaSuccess;
  const BackwardWorkspace workspace(args.workspace, problem);
  BackwardParams params;
  params.args = args;
  params.covered = workspace.covered;
  params.terms = workspace.terms;
  params.scale_log2 = problem.scale * kLog2E;
  params.vector16 = rows_allow_16_bytes(problem.head_dim, args.q, args.k, args.v, args.o, args.grad_o) &&
                    rows_allow_16_bytes(problem.head_dim, args.grad_q, args.grad_k, args.grad_v);
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
      AttentionRowTermsParams<bf16>{problem, args.o, args.grad_o, args.lse, kLog2E, params.vector16, workspace.terms},
      stream);
  if (error != cudaSuccess) return error;
  return with_backward_tiles(problem.head_dim,
                             [&](auto pair) { return launch_sweeps<decltype(pair)>(params, workspace, stream); });
}

}  // namespace ida::cuda
