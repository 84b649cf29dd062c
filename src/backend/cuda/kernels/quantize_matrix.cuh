// One direction of a quantisation as the kernels see it: where its elements, their random bits and its results lie.
#pragma once
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/quantize.h"
#include "formats/block_rules.h"

namespace ida::cuda {

inline constexpr int kChunk = 16;  // elements along K that a thread takes at once: those of a Hadamard transform

// Element (row, k) of the matrix that is quantised, [rows, k].
struct Direction {
  std::int64_t rows = 0;
  std::int64_t k = 0;
  const void* x = nullptr;
  std::int64_t x_row = 0;  // distance of neighbours: of rows, along K
  std::int64_t x_k = 0;
  float* carry = nullptr;
  std::int64_t carry_stride = 0;
  QuantizedMatrix out;
  const std::uint32_t* amax = nullptr;  // of the tensor or of every row; null: blocks have their own alone
  bool amax_given = false;              // before the prescale, else after it
  const std::int32_t* prescale = nullptr;
  const std::uint64_t* step = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
};

inline bool measures_amax(const formats::QuantFormat& f) {
  return formats::needs_tensor_amax(f) || f.grid == formats::ScaleGrid::kRow;
}
inline std::int64_t measured_words(const formats::QuantFormat& f, std::int64_t rows, bool has_amax) {
  if (!measures_amax(f) || (formats::needs_tensor_amax(f) && has_amax)) return 0;
  return f.grid == formats::ScaleGrid::kRow ? rows : 1;
}

inline Direction direction_by_rows(const Quantize& a) {
  Direction d{.rows = a.rows,
              .k = a.cols,
              .x = a.x,
              .x_row = a.x_stride,
              .x_k = 1,
              .carry = a.carry,
              .carry_stride = a.carry_stride,
              .out = a.by_rows,
              .prescale = a.prescale,
              .step = a.step,
              .seed = a.seed,
              .tensor = 2 * a.tensor};
  if (measures_amax(a.by_rows.format)) {
    d.amax_given = a.amax != nullptr && formats::needs_tensor_amax(a.by_rows.format);
    d.amax = d.amax_given ? a.amax : a.measured;
  }
  return d;
}
inline Direction direction_by_cols(const Quantize& a) {
  Direction d{.rows = a.cols,
              .k = a.rows,
              .x = a.x,
              .x_row = 1,
              .x_k = a.x_stride,
              .out = a.by_cols,
              .prescale = a.prescale,
              .step = a.step,
              .seed = a.seed,
              .tensor = 2 * a.tensor + 1};
  if (measures_amax(a.by_cols.format)) {
    d.amax_given = a.amax != nullptr && formats::needs_tensor_amax(a.by_cols.format);
    d.amax = d.amax_given ? a.amax : a.measured + measured_words(a.by_rows.format, a.rows, a.amax != nullptr);
  }
  return d;
}

__device__ inline int prescale_of(const std::int32_t* prescale) { return prescale == nullptr ? 0 : *prescale; }

// The amax of `row`, after the prescale.
__device__ inline formats::Amax amax_of(const Direction& d, std::int64_t row) {
  if (d.amax == nullptr) return 0;
  const std::uint32_t bits = d.amax[d.out.format.grid == formats::ScaleGrid::kRow ? row : 0];
  if (!d.amax_given || d.prescale == nullptr) return bits;
  return formats::magnitude_bits(std::bit_cast<float>(bits) * formats::exp2_f32(*d.prescale));
}

__device__ inline std::uint64_t step_of(const Direction& d) { return d.step == nullptr ? 0 : *d.step; }

__device__ inline std::uint16_t signs_of(const Direction& d) {
  return d.out.format.hadamard == formats::Hadamard::kSeededSigns ? formats::hadamard_signs(d.seed, step_of(d))
                                                                  : formats::kHadamardSigns;
}

// Place of the scale of (row, block), in scales.
__host__ __device__ inline std::int64_t scale_place(const QuantizedMatrix& m, std::int64_t k, std::int64_t row,
                                                    std::int64_t block) {
  using formats::ScaleGrid;
  const ScaleGrid grid = m.format.grid;
  if (grid == ScaleGrid::kTensor) return 0;
  if (grid == ScaleGrid::kBlock128) return row / 128 * m.scale_stride + block;
  if (m.layout == formats::ScaleLayout::kRows || grid == ScaleGrid::kRow) return row * m.scale_stride + block;
  if (grid == ScaleGrid::kVec128) return block * m.scale_stride + row;
  return formats::tiled_scale_offset(row, block, formats::scales_per_row(m.format, k));
}

// Measures d.amax, which has been set to zero.
template <typename T>
cudaError_t launch_measure_chunks(const Direction& d, cudaStream_t stream);

// Zeroes what lies between the scales in the layout of products.
cudaError_t launch_zero_scale_padding(const Direction& d, cudaStream_t stream);

}  // namespace ida::cuda
