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

// Vectors i of rows row + i * kRowsATurn, at column col.
__device__ inline void load_tile(const Direction& rows, std::int64_t row, std::int64_t col, uint4* vecs) {
#pragma unroll
  for (int i = 0; i < kVecs; ++i) vecs[i] = load_elements(rows.x, rows.x_row, row + i * kRowsATurn, col);
}

__device__ inline void produce(const ProducedMatrix& m, std::int64_t row, std::int64_t col, uint4* vecs) {
  if (m.source == MatrixSource::kRmsNorm) {
    const uint4 w = load_elements(m.w, 0, 0, col);
    float rstd[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      vecs[i] = load_elements(m.x, m.x_stride, row + i * kRowsATurn, col);
      rstd[i] = m.rstd[row + i * kRowsATurn];
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
        const std::int64_t r = row + (first + i) * kRowsATurn;
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
  if (m.y == nullptr) return;
  auto* y = static_cast<bf16*>(m.y) + row * m.y_stride + col;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) *reinterpret_cast<uint4*>(y + i * kRowsATurn * m.y_stride) = vecs[i];
}

}  // namespace
}  // namespace ida::cuda
