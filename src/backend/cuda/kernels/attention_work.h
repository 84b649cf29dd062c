// What the attention kernels share around their tiles: the list of tiles to compute, made on the device so that a
// captured graph stays valid when document offsets change, and the per-row terms of the backward pass.
//
// A list holds (segment, tile) pairs, longest first. Persistent blocks take (tile, head) pairs from it in order by an
// atomic counter; which block computes a pair changes nothing in its result.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/attention_problem.h"

namespace ida::cuda {

struct AttentionTile {
  AttentionSegment segment;
  std::int32_t tile = 0;  // of queries or of keys, from the segment's first
  std::int32_t unused[3] = {};
};
static_assert(sizeof(AttentionTile) == 32);

inline constexpr int kAttentionMaxSweeps = 2;  // kernels that run over one list

struct AttentionListState {
  std::int32_t count = 0;                       // tiles in the list
  std::int32_t next[kAttentionMaxSweeps] = {};  // pairs handed out beyond the first of each block, by sweep
};

enum class TileRows : std::uint8_t { kQueries, kKeys };

// A list in the workspace.
struct AttentionList {
  TileRows rows = TileRows::kQueries;
  int tile_rows = 0;
  std::int64_t capacity = 0;
  AttentionTile* tiles = nullptr;  // [capacity]
  AttentionListState* state = nullptr;
};

// Tiles of `tile_rows` rows that any segment table of the problem can ask for.
constexpr std::int64_t attention_list_capacity(std::int64_t rows, std::int64_t max_segments, int tile_rows) {
  return rows / tile_rows + (max_segments < rows ? max_segments : rows);
}

// Hands out parts of a workspace, each aligned to 64 bytes; with a null base it measures.
class AttentionWorkspace {
 public:
  explicit AttentionWorkspace(void* base) : base_(static_cast<unsigned char*>(base)) {}
  template <typename T>
  T* take(std::int64_t count) {
    unsigned char* part = base_ == nullptr ? nullptr : base_ + size_bytes_;
    size_bytes_ += div_up(count * static_cast<std::int64_t>(sizeof(T)), 64) * 64;
    return reinterpret_cast<T*>(part);
  }
  AttentionList take_list(TileRows rows, int tile_rows, const AttentionProblem& problem) {
    const std::int64_t capacity = attention_list_capacity(problem.q_rows, problem.max_segments, tile_rows);
    return {rows, tile_rows, capacity, take<AttentionTile>(capacity), take<AttentionListState>(1)};
  }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  unsigned char* base_;
  std::int64_t size_bytes_ = 0;
};

struct AttentionListParams {
  const AttentionSegment* segments = nullptr;  // [max_segments]
  std::int64_t max_segments = 0;
  int window = 0;
  std::int64_t q_rows = 0;
  std::uint8_t* covered = nullptr;  // [q_rows] written: 1 where a row of q belongs to a segment
  int num_lists = 1;
  AttentionList lists[2];
};

cudaError_t build_attention_lists(const AttentionListParams& params, cudaStream_t stream);

// Row terms of backward, head by head so that a tile of queries reads them in one piece.
struct AttentionRowTerms {
  float lse = 0.0f;    // times lse_factor
  float delta = 0.0f;  // sum over the head of grad_o * o
};

template <typename T>
struct AttentionRowTermsParams {
  AttentionProblem problem;
  AttentionMatrix<const T> o, grad_o;
  AttentionLse lse;
  float lse_factor = 1.0f;
  bool vector16 = false;               // rows of o and grad_o allow loads of 16 bytes
  AttentionRowTerms* terms = nullptr;  // [num_heads, q_rows], written
};

template <typename T>
cudaError_t attention_row_terms(const AttentionRowTermsParams<T>& params, cudaStream_t stream);

// Order of (tile, head) pairs: heads in groups whose keys and values stay in the L2 cache while all tiles pass over them,
// then tiles in list order, then heads of the group.
constexpr int attention_heads_at_once(const AttentionProblem& problem, int num_heads, std::int64_t element_bytes) {
  constexpr std::int64_t kCacheBytes = 16 << 20;
  const std::int64_t bytes_of_kv_head = 2 * problem.kv_rows * problem.head_dim * element_bytes;
  const std::int64_t kv_heads = bytes_of_kv_head == 0 ? 1 : kCacheBytes / bytes_of_kv_head;
  const std::int64_t heads = (kv_heads < 1 ? 1 : kv_heads) * (num_heads / problem.num_kv_heads);
  return static_cast<int>(heads < num_heads ? heads : num_heads);
}

}  // namespace ida::cuda
