#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"
#include "backend/cuda/quantize_problem.h"

namespace ida::cuda {
namespace {

using formats::QuantFormat;
using formats::ScaleGrid;

QuantizedMatrix matrix_of(const QuantFormat& format, formats::ScaleLayout layout, const ops::QuantizedView& view) {
  return {.format = format,
          .layout = layout,
          .codes = static_cast<std::uint8_t*>(view.codes.data),
          .code_stride = view.codes.row_stride,
          .scales = view.scales.data,
          .scale_stride = view.scales.row_stride,
          .tensor_scale = view.tensor_scale};
}

}  // namespace

Quantize quantize_problem(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args, const ops::Launch& launch) {
  return {.rows = desc.rows,
          .cols = desc.cols,
          .dtype = desc.dtype,
          .x = args.x.data,
          .x_stride = args.x.row_stride,
          .by_rows = matrix_of(desc.by_rows, desc.layout, args.by_rows),
          .by_cols = matrix_of(desc.by_cols, desc.layout, args.by_cols),
          .amax = desc.has_amax ? args.amax : nullptr,
          .prescale = desc.has_prescale ? args.prescale : nullptr,
          .carry = desc.error_feedback ? static_cast<float*>(args.carry.data) : nullptr,
          .carry_stride = args.carry.row_stride,
          .step = args.step,
          .seed = args.seed,
          .tensor = args.tensor,
          .measured = reinterpret_cast<std::uint32_t*>(launch.workspace.data())};
}

namespace {

std::int64_t workspace_bytes(const ops::QuantizeDesc& desc, const runtime::DeviceInfo&) {
  return 4 * quantize_measured_words(desc.by_rows, desc.by_cols, desc.rows, desc.cols, desc.has_amax);
}

void quantize(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args, const ops::Launch& launch) {
  check(launch_quantize(quantize_problem(desc, args, launch), stream_of(launch)), "quantize");
}

bool has_tiled_kernel(const QuantFormat& f) {
  if (f.square_blocks && f.hadamard != formats::Hadamard::kNone) return false;
  return !f.four_over_six && (f.hadamard == formats::Hadamard::kNone || f.grid == ScaleGrid::kMx32 ||
                              f.grid == ScaleGrid::kNv16 || f.grid == ScaleGrid::kNone);
}

ops::Refusal takes_any(const ops::QuantizeDesc& desc, const runtime::DeviceInfo& device) {
  if (const ops::Refusal refusal = refuse_other_devices(device)) return refusal;
  return ops::refuse_choices(desc);
}

}  // namespace

// Both directions come from one kernel, a kernel a grid and element.
ops::Refusal refuse_quantize_tiles(const ops::QuantizeDesc& desc, const runtime::DeviceInfo& device) {
  if (const ops::Refusal refusal = takes_any(desc, device)) return refusal;
  if (desc.dtype != DType::kBF16) return {ops::RefusalKind::kDType, "tiles are of bf16"};
  if (desc.rows % kQuantizeUnit != 0 || desc.cols % kQuantizeUnit != 0)
    return {ops::RefusalKind::kShape, "tiles need rows and columns that are multiples of 32"};
  if (desc.error_feedback) return {ops::RefusalKind::kShape, "tiles have no carry"};
  if (!has_tiled_kernel(desc.by_rows) || !has_tiled_kernel(desc.by_cols))
    return {ops::RefusalKind::kShape, "no tiles for four over six, or a transform of square blocks or under f32 scales"};
  if (desc.by_rows.grid != ScaleGrid::kNone && desc.by_cols.grid != ScaleGrid::kNone &&
      (desc.by_rows.grid != desc.by_cols.grid || desc.by_rows.element != desc.by_cols.element))
    return {ops::RefusalKind::kShape, "rows and columns of different formats"};
  return ops::kAccepted;
}

bool lies_on(const TensorView& view, std::int64_t bytes) {
  return aligned_to(view.data, bytes) && view.row_stride * dtype_size_bytes(view.dtype) % bytes == 0;
}

namespace {

// Scales of MX and NVFP4 are stored sixteen at a time in the layout of products.
bool aligned(const QuantFormat& format, formats::ScaleLayout layout, const ops::QuantizedView& view) {
  if (format.grid == ScaleGrid::kNone) return true;
  if (!lies_on(view.codes, 16)) return false;
  if (formats::has_f32_scales(format.grid)) return true;
  return layout == formats::ScaleLayout::kRows || aligned_to(view.scales.data, 16);
}

}  // namespace

bool results_on_vectors(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args) {
  return aligned(desc.by_rows, desc.layout, args.by_rows) && aligned(desc.by_cols, desc.layout, args.by_cols);
}

namespace {

void quantize_tiled(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args, const ops::Launch& launch) {
  const Quantize problem = quantize_problem(desc, args, launch);
  const bool vectors = lies_on(args.x, 16) && results_on_vectors(desc, args);
  check(vectors ? launch_quantize_tiled(problem, stream_of(launch)) : launch_quantize(problem, stream_of(launch)),
        "quantize");
}

void dequantize(const ops::DequantizeDesc& desc, const ops::DequantizeArgs& args, const ops::Launch& launch) {
  check(launch_dequantize({.rows = desc.rows,
                           .cols = desc.cols,
                           .x = matrix_of(desc.format, desc.layout, args.x),
                           .with_tensor_scale = desc.with_tensor_scale,
                           .dtype = desc.dtype,
                           .y = args.y.data,
                           .y_stride = args.y.row_stride},
                          stream_of(launch)),
        "dequantize");
}

ops::Refusal takes_scattered(const ops::QuantizeDesc& desc, const runtime::DeviceInfo& device) {
  if (const ops::Refusal refusal = refuse_quantize_tiles(desc, device)) return refusal;
  if (desc.rows % kQuantizeTile != 0 || desc.cols % kQuantizeTile != 0)
    return {ops::RefusalKind::kShape, "whole tiles of 128 x 128 alone"};
  const QuantFormat& f = desc.by_cols;
  if (desc.by_rows.grid != ScaleGrid::kNone || f.grid != ScaleGrid::kMx32 || f.hadamard != formats::Hadamard::kNone ||
      f.rounding != formats::Rounding::kNearest || f.square_blocks || desc.has_prescale)
    return {ops::RefusalKind::kShape, "scattered stores are kept for plain MX by columns"};
  return ops::kAccepted;
}
void quantize_scattered(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args, const ops::Launch& launch) {
  check(launch_quantize_scattered(quantize_problem(desc, args, launch), stream_of(launch)), "quantize");
}

}  // namespace

ops::QuantizeList quantize_record_impls() {
  return {{.name = "own.scattered", .supports = takes_scattered, .workspace_bytes = nullptr, .run = quantize_scattered}};
}
ops::QuantizeList quantize_impls() {
  return {{.name = "own.quantize_tiled",
           .supports = refuse_quantize_tiles,
           .workspace_bytes = workspace_bytes,
           .run = quantize_tiled},
          {.name = "own.quantize", .supports = takes_any, .workspace_bytes = workspace_bytes, .run = quantize}};
}
ops::DequantizeList dequantize_impls() {
  return {{.name = "own.dequantize", .supports = any_shape, .workspace_bytes = nullptr, .run = dequantize}};
}

}  // namespace ida::cuda
