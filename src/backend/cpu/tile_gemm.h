// Register-blocked product of small f32 matrices in cache, for attention. Every element is one chain of (fused)
// multiply-adds over ascending k, whatever the tile it falls into.
#pragma once
#include "backend/cpu/simd.h"

namespace {

// Rows of a register tile of two vectors: 2 * kTileRows accumulators hide the latency of FMA and leave registers for
// two vectors of B and a broadcast of A.
#if defined(__AVX512F__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kPanel = 2 * kWidth;  // columns of a register tile

// C[m, n] = A B, or C += A B. A(row, k) is at a[row * a_row + k * a_k].
struct TileGemm {
  std::int64_t m;
  std::int64_t n;  // rounded up to kPanel: B and C have that many columns
  std::int64_t k;
  const float* a;
  std::int64_t a_row;
  std::int64_t a_k;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
};

template <int kRows, bool kAccumulate>
inline void tile(const TileGemm& g, const float* a, const float* b, float* c) {
  F32 sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = kAccumulate ? load(c + r * g.c_stride) : F32{};
    sum[r][1] = kAccumulate ? load(c + r * g.c_stride + kWidth) : F32{};
  }
  const std::int64_t a_row = g.a_row;
  const std::int64_t a_k = g.a_k;
  const std::int64_t b_stride = g.b_stride;
  for (std::int64_t k = g.k; k > 0; --k) {
    const F32 b0 = load(b);
    const F32 b1 = load(b + kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 av = broadcast(a[r * a_row]);
      sum[r][0] = fma(av, b0, sum[r][0]);
      sum[r][1] = fma(av, b1, sum[r][1]);
    }
    a += a_k;
    b += b_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    store(c + r * g.c_stride, sum[r][0]);
    store(c + r * g.c_stride + kWidth, sum[r][1]);
  }
}

template <int kRows, bool kAccumulate>
inline void last_rows(const TileGemm& g, std::int64_t rows, const float* a, const float* b, float* c) {
  if (rows == kRows) {
    tile<kRows, kAccumulate>(g, a, b, c);
  } else if constexpr (kRows > 1) {
    last_rows<kRows - 1, kAccumulate>(g, rows, a, b, c);
  }
}

template <bool kAccumulate>
inline void multiply(const TileGemm& g) {
  for (std::int64_t column = 0; column < g.n; column += kPanel) {
    const float* b = g.b + column;
    std::int64_t row = 0;
    for (; row + kTileRows <= g.m; row += kTileRows) {
      tile<kTileRows, kAccumulate>(g, g.a + row * g.a_row, b, g.c + row * g.c_stride + column);
    }
    if (row < g.m) {
      last_rows<kTileRows - 1, kAccumulate>(g, g.m - row, g.a + row * g.a_row, b, g.c + row * g.c_stride + column);
    }
  }
}

}  // namespace
