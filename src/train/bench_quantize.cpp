#include "train/bench_quantize.h"

namespace ida::train {
namespace {

using formats::QuantFormat;
using formats::Rounding;
using formats::ScaleGrid;

// Whether the largest magnitude of all of x, or of a row or column, has to be known before the first code.
bool reads_twice(const QuantFormat& f, bool has_amax) {
  if (f.grid == ScaleGrid::kRow) return true;
  return !has_amax && formats::needs_tensor_amax(f);
}

struct QuantizeBench {
  OpTimer& timer;
  std::int64_t rows, cols;

  void time(const std::string& op, const ops::QuantizeList& list, const QuantFormat& by_rows, const QuantFormat& by_cols,
            bool has_amax = false) const {
    const ops::QuantizeDesc desc{.rows = rows,
                                 .cols = cols,
                                 .by_rows = by_rows,
                                 .by_cols = by_cols,
                                 .layout = formats::ScaleLayout::kProduct,
                                 .has_amax = has_amax};
    const double x = 2.0 * static_cast<double>(rows) * static_cast<double>(cols);
    const double reads = reads_twice(by_rows, has_amax) || reads_twice(by_cols, has_amax) ? 2.0 : 1.0;
    timer.time<ops::QuantizeDesc, ops::QuantizeArgs>(
        op, list, desc,
        reads * x + quantized_bytes(by_rows, desc.layout, rows, cols) + quantized_bytes(by_cols, desc.layout, cols, rows),
        [&](Operands& o) {
          const std::int32_t amax = 0x40C00000;  // 6.0
          return ops::QuantizeArgs{.x = o.random(DType::kBF16, rows, cols),
                                   .by_rows = quantized_result(o, by_rows, desc.layout, rows, cols),
                                   .by_cols = quantized_result(o, by_cols, desc.layout, cols, rows),
                                   .amax = static_cast<const std::uint32_t*>(o.upload(DType::kI32, 1, 1, &amax).data),
                                   .step = static_cast<const std::uint64_t*>(o.zero(DType::kI64, 1, 1).data)};
        });
  }

  void directions(const std::string& suffix, const QuantFormat& by_rows, const QuantFormat& by_cols, bool has_amax) const {
    const ops::QuantizeList& list = timer.backend().quantize;
    time("quantize rows" + suffix, list, by_rows, {}, has_amax);
    time("quantize columns" + suffix, list, {}, by_cols, has_amax);
    time("quantize both" + suffix, list, by_rows, by_cols, has_amax);
  }

  void format(std::string_view name) const {
    const QuantFormat nearest = *formats::format_of_name(name);
    QuantFormat drawn = nearest;
    drawn.rounding = Rounding::kStochastic;
    directions("", nearest, nearest, false);
    directions(" drawn", drawn, drawn, false);
    if (reads_twice(nearest, false) && !reads_twice(nearest, true)) directions(" amax given", nearest, nearest, true);
    if (nearest.grid == ScaleGrid::kMx32 || nearest.grid == ScaleGrid::kNv16) {
      QuantFormat transformed = nearest;
      transformed.hadamard = formats::Hadamard::kFixedSigns;
      time("quantize both hadamard", timer.backend().quantize, nearest, transformed);
      transformed.rounding = Rounding::kStochastic;
      time("quantize both hadamard drawn", timer.backend().quantize, drawn, transformed);
    }
    if (!timer.backend().quantize_record.empty()) time("quantize record", timer.backend().quantize_record, {}, nearest);
    for (const bool with_tensor_scale : {false, true}) {
      if (with_tensor_scale && nearest.grid != ScaleGrid::kNv16) continue;
      const ops::DequantizeDesc desc{.rows = rows,
                                     .cols = cols,
                                     .format = nearest,
                                     .layout = formats::ScaleLayout::kProduct,
                                     .with_tensor_scale = with_tensor_scale};
      timer.time<ops::DequantizeDesc, ops::DequantizeArgs>(
          "dequantize", timer.backend().dequantize, desc,
          2.0 * static_cast<double>(rows) * static_cast<double>(cols) + quantized_bytes(nearest, desc.layout, rows, cols),
          [&](Operands& o) {
            return ops::DequantizeArgs{.x = quantized_result(o, nearest, desc.layout, rows, cols),
                                       .y = o.zero(DType::kBF16, rows, cols)};
          });
    }
  }
};

}  // namespace

ops::QuantizedView quantized_result(Operands& o, const QuantFormat& f, formats::ScaleLayout layout, std::int64_t rows,
                                    std::int64_t k) {
  if (f.grid == ScaleGrid::kNone) return {};
  const ops::ScalesShape scales = ops::quantized_scales_shape(f, layout, rows, k);
  return {.codes = o.zero(DType::kU8, rows, formats::code_row_bytes(f, k)),
          .scales = o.zero(scales.dtype, scales.rows, scales.cols),
          .tensor_scale = o.zero(DType::kF32, 1, 1).as<float>()};
}

double quantized_bytes(const QuantFormat& f, formats::ScaleLayout layout, std::int64_t rows, std::int64_t k) {
  if (f.grid == ScaleGrid::kNone) return 0.0;
  const ops::ScalesShape scales = ops::quantized_scales_shape(f, layout, rows, k);
  return static_cast<double>(rows * formats::code_row_bytes(f, k) +
                             scales.rows * scales.cols * dtype_size_bytes(scales.dtype));
}

void bench_quantize(OpTimer& timer, std::int64_t rows, std::int64_t cols) {
  if (timer.backend().quantize.empty() || timer.backend().quantize.front().name.ends_with(".definition")) return;
  const QuantizeBench bench{timer, rows, cols};
  for (const std::string_view name : kBenchFormats) bench.format(name);
}

}  // namespace ida::train
