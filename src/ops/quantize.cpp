#include "ops/quantize.h"

#include "ops/gemm.h"
#include "ops/quantize_steps.h"

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

namespace {

Refusal refuse_format(const formats::QuantFormat& f, std::int64_t k) {
  using enum formats::ScaleGrid;
  if (f.grid == kNone) return kAccepted;
  const bool fp4 = f.element == formats::Element::kE2m1;
  if (f.grid == kNv16 && !fp4) return {RefusalKind::kDType, "nvfp4 has e2m1 elements"};
  if (formats::has_f32_scales(f.grid) && fp4) return {RefusalKind::kDType, "f32 scales go with fp8 elements"};
  if (f.square_blocks && f.grid != kMx32 && f.grid != kNv16)
    return {RefusalKind::kDType, "square blocks are a choice of mxfp8, mxfp4 and nvfp4"};
  if (f.four_over_six && (f.grid != kNv16 || f.rounding == formats::Rounding::kStochastic))
    return {RefusalKind::kDType, "four-over-six is a choice of nvfp4 with nearest rounding"};
  if (f.hadamard != formats::Hadamard::kNone && k % 16 != 0)
    return {RefusalKind::kShape, "a Hadamard transform needs a multiple of 16 elements"};
  return kAccepted;
}

}  // namespace

Refusal refuse_choices(const QuantizeDesc& desc) {
  using formats::Hadamard;
  if (desc.dtype != DType::kF32 && desc.dtype != DType::kBF16) return {RefusalKind::kDType, "takes f32 and bf16"};
  if (const Refusal refusal = refuse_format(desc.by_rows, desc.cols)) return refusal;
  if (const Refusal refusal = refuse_format(desc.by_cols, desc.rows)) return refusal;
  for (const formats::QuantFormat& f : {desc.by_rows, desc.by_cols}) {
    if (desc.has_amax && formats::needs_tensor_amax(f) && f.hadamard != Hadamard::kNone)
      return {RefusalKind::kDType, "the amax given is not that of transformed values"};
  }
  if (!desc.error_feedback) return kAccepted;
  if (desc.by_rows.grid == formats::ScaleGrid::kNone || desc.by_cols.grid != formats::ScaleGrid::kNone)
    return {RefusalKind::kDType, "error feedback goes with rows alone"};
  if (desc.by_rows.hadamard != Hadamard::kNone || desc.has_amax)
    return {RefusalKind::kDType, "error feedback with a transform or a given amax"};
  return kAccepted;
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

Refusal refuse_quantized_operands(const GemmDesc& desc) {
  using formats::ScaleGrid;
  if (desc.a_format.grid == ScaleGrid::kNone || desc.b_format.grid == ScaleGrid::kNone)
    return {RefusalKind::kDType, "operands are not both quantised"};
  if (desc.a_transposed || !desc.b_transposed)
    return {RefusalKind::kShape, "quantised operands lie with k contiguous, A [m, k] and B [n, k]"};
  return kAccepted;
}

std::string_view quantize_step_name(QuantizeStep step) {
  switch (step) {
    case QuantizeStep::kTranspose: return "transpose";
    case QuantizeStep::kAmax: return "amax";
    case QuantizeStep::kQuantize: return "quantize";
    case QuantizeStep::kPack: return "pack";
    case QuantizeStep::kSwizzle: return "swizzle";
  }
  return "?";
}

std::string QuantizeStepDesc::to_string() const {
  return fmt::format("{} [{}, {}] {}", quantize_step_name(step), rows, cols, choices(format));
}

}  // namespace ida::ops
