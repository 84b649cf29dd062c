// Device side of attention_work.h: how a persistent block walks a list, and how rows in no segment become zero.
#pragma once
#include "backend/cuda/kernels/attention_work.h"

namespace ida::cuda {

struct AttentionSweep {
  AttentionList list;
  int sweep = 0;  // which counter of the list
  int num_heads = 0;
  int heads_at_once = 0;
};

struct AttentionWorkItem {
  AttentionTile tile;
  int head = 0;
};

__device__ inline AttentionWorkItem attention_work_item(const AttentionSweep& sweep, int count, int index) {
  const int pairs_at_once = count * sweep.heads_at_once;
  const int first_head = index / pairs_at_once * sweep.heads_at_once;
  const int heads = min_of(sweep.heads_at_once, sweep.num_heads - first_head);
  const int rest = index % pairs_at_once;
  return {sweep.list.tiles[rest / heads], first_head + rest % heads};
}

// Calls body(item) for the pairs this block gets. The item stays in shared memory, which spares the registers of what is
// only needed before and after a long loop; dynamic shared memory is free when body starts.
template <typename Body>
__device__ __forceinline__ void for_each_attention_item(const AttentionSweep& sweep, Body&& body) {
  __shared__ AttentionWorkItem item;
  int index = static_cast<int>(blockIdx.x);
  for (;;) {
    if (threadIdx.x == 0) {
      const int count = sweep.list.state->count;
      item.head = -1;
      if (index < count * sweep.num_heads) item = attention_work_item(sweep, count, index);
    }
    __syncthreads();
    if (item.head < 0) return;
    // The next index is on its way while the item is computed.
    if (threadIdx.x == 0) index = static_cast<int>(gridDim.x) + atomicAdd(&sweep.list.state->next[sweep.sweep], 1);
    body(item);
    __syncthreads();
  }
}

// Writes zeros to the rows of [rows, cols] that no segment covers, 4-byte words; a warp takes 32 rows.
template <typename T>
__device__ void zero_uncovered_rows(const std::uint8_t* covered, std::int64_t rows, const AttentionMatrix<T>& matrix,
                                    int cols) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (std::int64_t base = warp * 32; base < rows; base += warps * 32) {
    unsigned open = __ballot_sync(0xFFFFFFFFu, base + lane < rows && covered[base + lane] == 0);
    for (; open != 0; open &= open - 1) {
      T* row = matrix.data + (base + __ffs(static_cast<int>(open)) - 1) * matrix.row_stride;
      for (int col = lane; col < cols; col += 32) row[col] = T{};
    }
  }
}

}  // namespace ida::cuda
