// A thread's vectors of a tile from memory or from what makes the matrix: RMSNorm, SwiGLU or its backward. Several vectors'
// operands are loaded before the first is used.
#pragma once
#include "backend/cuda/device/producers.cuh"
#include "backend/cuda/kernels/quantize_tile_rules.cuh"

namespace ida::cuda {
namespace {

// The column where a tile begins. A gate's gradient and its up's follow each other: the second finds their operands in the
// cache.
__device__ inline std::int64_t produced_column(const ProducedMatrix& m, unsigned tile) {
  if (m.source != MatrixSource::kSwigluBackward) return std::int64_t{tile} * kTile;
  return std::int64_t{tile / 2} * kTile + (tile % 2 == 0 ? 0 : m.gate_cols);
}

// Eight elements f(i) as bf16.
template <typename F>
__device__ inline uint4 rounded(F&& f) {
  std::uint32_t w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t low = from_float<bf16>(f(2 * j)).bits;
    w[j] = static_cast<std::uint32_t>(from_float<bf16>(f(2 * j + 1)).bits) << 16 | low;
  }
  return {w[0], w[1], w[2], w[3]};
}

__device__ inline float element(const uint4& v, int i) {
  const std::uint32_t w[4] = {v.x, v.y, v.z, v.w};
  return i % 2 == 0 ? low_f32(w[i / 2]) : high_f32(w[i / 2]);
}

__device__ inline uint4 load_elements(const void* from, std::int64_t stride, std::int64_t row, std::int64_t col) {
  return *reinterpret_cast<const uint4*>(static_cast<const bf16*>(from) + row * stride + col);
}

// A thread's place in a tile: vectors i of rows row + i * kRowsATurn, at column col.
struct VecPlace {
  int row = 0;
  int col = 0;
  __device__ int row_of(int i) const { return row + i * kRowsATurn; }
};

// Zeros beyond the matrix.
__device__ inline void load_tile(const Direction& rows, std::int64_t row0, std::int64_t col0, const VecPlace& at,
                                 const Extent& extent, uint4* vecs) {
#pragma unroll
  for (int i = 0; i < kVecs; ++i)
    vecs[i] =
        extent.has(at.row_of(i), at.col) ? load_elements(rows.x, rows.x_row, row0 + at.row_of(i), col0 + at.col) : uint4{};
}

__device__ inline void produce(const ProducedMatrix& m, std::int64_t row0, std::int64_t col0, const VecPlace& at,
                               const Extent& extent, uint4* vecs) {
  // Vectors beyond the matrix are made of its last row and first columns and then forgotten.
  const auto row_of = [&](int i) { return row0 + (at.row_of(i) < extent.rows ? at.row_of(i) : extent.rows - 1); };
  const std::int64_t col = col0 + (at.col < extent.cols ? at.col : 0);
  if (m.source == MatrixSource::kRmsNorm) {
    const uint4 w = load_elements(m.w, 0, 0, col);
    float rstd[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      vecs[i] = load_elements(m.x, m.x_stride, row_of(i), col);
      rstd[i] = m.rstd[row_of(i)];
    }
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const uint4 x = vecs[i];
      vecs[i] = rounded([&](int e) { return rms_norm_value(element(x, e), rstd[i], element(w, e)); });
    }
  } else {
    constexpr int kAtOnce = 4;
    const bool backward = m.source == MatrixSource::kSwigluBackward;
    const bool of_up = col >= m.gate_cols;
    const std::int64_t gate_col = of_up ? col - m.gate_cols : col;
#pragma unroll
    for (int first = 0; first < kVecs; first += kAtOnce) {
      uint4 gate[kAtOnce], up[kAtOnce], grad_y[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t r = row_of(first + i);
        gate[i] = load_elements(m.x, m.x_stride, r, gate_col);
        up[i] = of_up ? uint4{} : load_elements(m.x, m.x_stride, r, gate_col + m.gate_cols);
        grad_y[i] = backward ? load_elements(m.grad_y, m.grad_y_stride, r, gate_col) : uint4{};
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        vecs[first + i] = rounded([&](int e) {
          const float g = element(gate[i], e);
          if (!backward) return swiglu_value(g, element(up[i], e));
          return of_up ? swiglu_grad_up(element(grad_y[i], e), g)
                       : swiglu_grad_gate(element(grad_y[i], e), g, element(up[i], e));
        });
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (!extent.has(at.row_of(i), at.col)) {
      vecs[i] = uint4{};
    } else if (m.y != nullptr) {
      *reinterpret_cast<uint4*>(static_cast<bf16*>(m.y) + row_of(i) * m.y_stride + col) = vecs[i];
    }
  }
}

}  // namespace
}  // namespace ida::cuda
