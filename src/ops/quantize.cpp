#include "ops/quantize.h"

namespace ida::ops {
namespace {

std::string choices(const formats::QuantFormat& f) {
  std::string text = formats::format_name(f);
  if (f.grid == formats::ScaleGrid::kMx32) text += f.scale_rule == formats::ScaleRule::kFloor ? " floor" : " ceil";
  if (f.grid == formats::ScaleGrid::kNv16) text += f.two_level ? " two-level" : " single-level";
  if (f.square_blocks) text += " square";
  if (f.power_of_two_scale) text += " power-of-two";
  if (f.four_over_six) text += " four-over-six";
  if (f.rounding == formats::Rounding::kStochastic) text += " stochastic";
  if (f.hadamard != formats::Hadamard::kNone) text += " hadamard";
  return text;
}

}  // namespace

std::string QuantizeDesc::to_string() const {
  return fmt::format("{}[{}, {}] by rows {} by columns {}{}{}{}{}", dtype_name(dtype), rows, cols, choices(by_rows),
                     choices(by_cols), layout == formats::ScaleLayout::kProduct ? " for products" : "",
                     has_amax ? " amax given" : "", has_prescale ? " prescaled" : "", error_feedback ? " carry" : "");
}

std::string DequantizeDesc::to_string() const {
  return fmt::format("{} -> {}[{}, {}]{}{}", choices(format), dtype_name(dtype), rows, cols,
                     layout == formats::ScaleLayout::kProduct ? " for products" : "",
                     with_tensor_scale ? "" : " without the tensor's scale");
}

ScalesShape quantized_scales_shape(const formats::QuantFormat& format, formats::ScaleLayout layout, std::int64_t rows,
                                   std::int64_t k) {
  const std::int64_t scale_rows = formats::scale_rows(format, rows);
  const std::int64_t per_row = formats::scales_per_row(format, k);
  if (!formats::has_f32_scales(format.grid)) {
    if (layout == formats::ScaleLayout::kRows) return {DType::kU8, scale_rows, per_row};
    return {DType::kU8, 1, formats::tiled_scale_bytes(rows, per_row)};
  }
  if (layout == formats::ScaleLayout::kProduct && format.grid == formats::ScaleGrid::kVec128)
    return {DType::kF32, per_row, scale_rows};
  if (layout == formats::ScaleLayout::kProduct && format.grid == formats::ScaleGrid::kBlock128)
    return {DType::kF32, scale_rows, (per_row + 3) / 4 * 4};
  return {DType::kF32, scale_rows, per_row};
}

}  // namespace ida::ops
