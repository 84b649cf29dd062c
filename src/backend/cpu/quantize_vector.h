// The vector form of quantisation: the bits of the definition, by tiles and without a branch per element.
#pragma once
#include "formats/scale_layout.h"
#include "ops/quantize.h"

namespace ida::cpu {

ops::Impl<ops::QuantizeDesc, ops::QuantizeArgs> quantize_vector();
ops::Impl<ops::DequantizeDesc, ops::DequantizeArgs> dequantize_vector();

// Place of the scale of block `block` of row `row`, in elements of the scales' type.
inline std::int64_t scale_place(const formats::QuantFormat& format, formats::ScaleLayout layout, const TensorView& scales,
                                std::int64_t row, std::int64_t block, std::int64_t k) {
  if (format.grid == formats::ScaleGrid::kTensor) return 0;
  if (format.grid == formats::ScaleGrid::kBlock128) return row / 128 * scales.row_stride + block;
  if (layout == formats::ScaleLayout::kRows || format.grid == formats::ScaleGrid::kRow)
    return row * scales.row_stride + block;
  if (format.grid == formats::ScaleGrid::kVec128) return block * scales.row_stride + row;
  return formats::tiled_scale_offset(row, block, formats::scales_per_row(format, k));
}

}  // namespace ida::cpu
