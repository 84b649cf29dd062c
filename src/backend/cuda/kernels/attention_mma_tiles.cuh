// Tiles of the mma attention kernels: global to shared memory, products of one warp, registers back to global memory.
#pragma once
#include "backend/cuda/device/arithmetic.cuh"
#include "backend/cuda/device/cp_async.cuh"
#include "backend/cuda/device/fragment_maps.h"
#include "backend/cuda/device/ldmatrix.cuh"
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/kernels/attention_problem.h"
#include "formats/bf16.h"

namespace ida::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// A warp owns 16 * kRowBlocks rows of the tile that stays, and meets tiles of kCols rows that stream past. kUnroll steps of
// 16 along the head are unrolled where all of them would let the compiler load ahead more than the registers hold.
template <int kHeadDim_, int kWarps, int kRowBlocks_, int kCols_, int kUnroll_ = kHeadDim_ / 16>
struct AttentionTileShape {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kRowBlocks = kRowBlocks_;
  static constexpr int kCols = kCols_;
  static constexpr int kUnroll = kUnroll_;
  static constexpr int kBlocksPerSm = 2;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRowsPerWarp = 16 * kRowBlocks;
  static constexpr int kRows = kWarps * kRowsPerWarp;
  static constexpr int kRowTileBytes = kRows * kHeadDim * 2;
  static constexpr int kColTileBytes = kCols * kHeadDim * 2;
  static_assert(kCols % 16 == 0);
};

// Accumulators of one warp: [row block][8 columns][mma C register].
template <int kRowBlocks, int kCols>
using WarpTile = float[kRowBlocks][kCols / 8][4];

template <int kRowBlocks, int kColBlocks>
__device__ __forceinline__ void clear(float (&x)[kRowBlocks][kColBlocks][4]) {
#pragma unroll
  for (int i = 0; i < kRowBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < kColBlocks; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[i][j][e] = 0.0f;
    }
  }
}

// Copies a chunk of 8 elements without waiting; those from `elements` on become zero, and their address is not read.
__device__ __forceinline__ void load_chunk(std::uint32_t to, const bf16* from, int elements, bool vector16) {
  if (vector16) {
    cp_async_16(to, from, elements > 0);
  } else {
#pragma unroll 1
    for (int i = 0; i < 8; i += 2) {
      cp_async_small<4>(to + static_cast<std::uint32_t>(i) * 2, from + i, i < elements);
    }
  }
}

// Copies kRows rows of one head to shared memory without waiting; rows from `valid` on, and columns from head_dim on,
// become zero. `source` is element 0 of the first row, which exists. Loops stay rolled: the addresses of several chunks
// would cost the registers that accumulators need.
template <int kRows, int kHeadDim, int kThreads>
__device__ __forceinline__ void load_tile(std::uint32_t tile, const bf16* source, std::int64_t row_stride, int valid,
                                          int head_dim, bool vector16) {
  using Shared = SharedTile<kHeadDim>;
  constexpr int kRowStep = kThreads / Shared::kChunks;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (kThreads % Shared::kChunks == 0 && kRowStep % 8 == 0) {  // a thread stays in its column, with its key
    const int col = thread % Shared::kChunks * 8;
    int row = thread / Shared::kChunks;
    const bf16* from = source + row * row_stride + col;
    std::uint32_t to = tile + static_cast<std::uint32_t>(Shared::chunk_offset_bytes(row, thread % Shared::kChunks));
#pragma unroll 1
    for (; row < kRows; row += kRowStep) {
      load_chunk(to, from, row < valid ? head_dim - col : 0, vector16);
      from += kRowStep * row_stride;
      to += kRowStep * Shared::kRowBytes;
    }
  } else {
#pragma unroll 1
    for (int index = thread; index < kRows * Shared::kChunks; index += kThreads) {
      const int row = index / Shared::kChunks;
      const int chunk = index % Shared::kChunks;
      load_chunk(tile + static_cast<std::uint32_t>(Shared::chunk_offset_bytes(row, chunk)),
                 source + row * row_stride + chunk * 8, row < valid ? head_dim - chunk * 8 : 0, vector16);
    }
  }
}

// What a lane adds to the address of a tile, for the two ways of reading 16 x 16 blocks.
template <int kHeadDim>
struct LaneOffsets {
  std::uint32_t row_major, col_major;
  __device__ LaneOffsets() {
    using Shared = SharedTile<kHeadDim>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row_major = static_cast<std::uint32_t>(Shared::lane_offset_bytes(ldmatrix_row_major(lane)));
    col_major = static_cast<std::uint32_t>(Shared::lane_offset_bytes(ldmatrix_col_major(lane)));
  }
};

// s = A B^T over the head: A the warp's rows, B the streamed rows, both [rows, kHeadDim] in shared memory.
template <typename Tile>
__device__ __forceinline__ void product_over_head(WarpTile<Tile::kRowBlocks, Tile::kCols>& s, std::uint32_t a_tile,
                                                  std::uint32_t b_tile, const LaneOffsets<Tile::kHeadDim>& lanes) {
  clear(s);
#pragma unroll(Tile::kUnroll)
  for (int k = 0; k < Tile::kHeadDim / 16; ++k) {
    std::uint32_t a[Tile::kRowBlocks][4];
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
      ldmatrix_x4(a[i], SharedTile<Tile::kHeadDim>::block_address(a_tile + lanes.row_major, i * 16, k));
    }
#pragma unroll
    for (int n = 0; n < Tile::kCols / 16; ++n) {
      std::uint32_t b[4];
      ldmatrix_x4(b, SharedTile<Tile::kHeadDim>::block_address(b_tile + lanes.col_major, n * 16, k));
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        mma_m16n8k16_bf16(s[i][2 * n], a[i], b[0], b[1]);
        mma_m16n8k16_bf16(s[i][2 * n + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// acc += P B: P [rows, kCols] from registers, rounded to bf16 (C registers of two blocks are the A registers of one), B
// [kCols, kHeadDim] in shared memory.
template <typename Tile>
__device__ __forceinline__ void add_product_over_cols(WarpTile<Tile::kRowBlocks, Tile::kHeadDim>& acc,
                                                      const WarpTile<Tile::kRowBlocks, Tile::kCols>& p,
                                                      std::uint32_t b_tile, const LaneOffsets<Tile::kHeadDim>& lanes) {
#pragma unroll
  for (int k = 0; k < Tile::kCols / 16; ++k) {
    std::uint32_t a[Tile::kRowBlocks][4];
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float(&c)[4] = p[i][2 * k + r / 2];
        a[i][r] = cvt_bf16x2(c[r % 2 * 2], c[r % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int d = 0; d < Tile::kHeadDim / 16; ++d) {
      std::uint32_t b[4];
      ldmatrix_x4_trans(b, SharedTile<Tile::kHeadDim>::block_address(b_tile + lanes.row_major, k * 16, d));
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; ++i) {
        mma_m16n8k16_bf16(acc[i][2 * d], a[i], b[0], b[1]);
        mma_m16n8k16_bf16(acc[i][2 * d + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// Row of a tile, for row block i and half h (C registers 2h and 2h + 1) of this lane; column of register e in block j.
template <typename Tile>
__device__ __forceinline__ int tile_row(int i, int h) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return warp * Tile::kRowsPerWarp + i * 16 + mma_c_index(static_cast<int>(threadIdx.x) % 32, 2 * h).row;
}
__device__ __forceinline__ int tile_col(int j, int e) {
  return j * 8 + mma_c_index(static_cast<int>(threadIdx.x) % 32, e).col;
}

// Writes the warp's rows, as bf16 times `factor`, to rows [0, valid) of `target`, through the warp's own rows of a tile
// in shared memory that no other warp reads.
template <typename Tile>
__device__ __forceinline__ void store_tile(const WarpTile<Tile::kRowBlocks, Tile::kHeadDim>& acc, float factor,
                                           std::uint32_t tile, bf16* target, std::int64_t row_stride, int valid,
                                           int head_dim, bool vector16) {
  using Shared = SharedTile<Tile::kHeadDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * Tile::kRowsPerWarp;
  __syncwarp();
  // Rows 8 apart have the same key, so one exclusive or serves them all.
  const std::uint32_t first = tile + static_cast<std::uint32_t>(tile_row<Tile>(0, 0) * Shared::kRowBytes + lane % 4 * 4);
  const int key = Shared::key(tile_row<Tile>(0, 0));
#pragma unroll
  for (int d = 0; d < Tile::kHeadDim / 8; ++d) {
    const std::uint32_t chunk = first + static_cast<std::uint32_t>((d ^ key) * 16);
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        store_shared(chunk + static_cast<std::uint32_t>((i * 16 + h * 8) * Shared::kRowBytes),
                     cvt_bf16x2(acc[i][d][2 * h] * factor, acc[i][d][2 * h + 1] * factor));
      }
    }
  }
  __syncwarp();
#pragma unroll 1
  for (int index = lane; index < Tile::kRowsPerWarp * Shared::kChunks; index += 32) {
    const int row = warp_row + index / Shared::kChunks;
    const int chunk = index % Shared::kChunks;
    if (row >= valid || chunk * 8 >= head_dim) continue;
    const uint4 v = load_shared_uint4(tile + static_cast<std::uint32_t>(Shared::chunk_offset_bytes(row, chunk)));
    bf16* to = target + row * row_stride + chunk * 8;
    if (vector16) {
      *reinterpret_cast<uint4*>(to) = v;
    } else {
      auto* words = reinterpret_cast<std::uint32_t*>(to);
      words[0] = v.x;
      if (chunk * 8 + 2 < head_dim) words[1] = v.y;
      if (chunk * 8 + 4 < head_dim) words[2] = v.z;
      if (chunk * 8 + 6 < head_dim) words[3] = v.w;
    }
  }
}

// Rows of the matrices allow loads and stores of 16 bytes.
template <typename... T>
bool rows_allow_16_bytes(int head_dim, const AttentionMatrix<T>&... matrices) {
  return head_dim % 8 == 0 &&
         ((reinterpret_cast<std::uintptr_t>(matrices.data) % 16 == 0 && matrices.row_stride % 8 == 0) && ...);
}

}  // namespace ida::cuda
