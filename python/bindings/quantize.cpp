// ops/quantize.h on numpy arrays, by the CPU's definition of it.
#include "backend/cpu/quantize.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "formats/block_rules.h"

namespace ida::python {
namespace {

using namespace formats;
using Scales = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<2>>;  // f32 or u8

constexpr std::size_t extent(std::int64_t n) { return static_cast<std::size_t>(n); }

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

// The value of a choice's name; the first where none is named.
template <typename T, std::size_t kCount>
T chosen(std::string_view what, const std::optional<std::string>& name, const std::array<Choice<T>, kCount>& choices) {
  if (!name) return choices[0].value;
  std::string known;
  for (const Choice<T>& choice : choices) {
    if (choice.name == *name) return choice.value;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", choice.name);
  }
  fail_usage("{}: expected one of {}, got '{}'", what, known, *name);
}

QuantFormat named_format(const std::string& name) {
  const std::optional<QuantFormat> format = format_of_name(name);
  if (!format) fail_usage("format: no format is called '{}'", name);
  return *format;
}

ScaleLayout named_layout(const std::string& name) {
  return chosen("layout", name, std::array{Choice{"rows", ScaleLayout::kRows}, Choice{"product", ScaleLayout::kProduct}});
}

// Choices as they come from Python; those not made are the engine's own, and one that means nothing for the format is
// refused.
struct Choices {
  std::optional<std::string> scale_rule, rounding, hadamard;
  std::optional<bool> two_level, square_blocks, power_of_two, four_over_six;

  QuantFormat apply(QuantFormat format) const {
    const bool f32_scales = has_f32_scales(format.grid);
    if (scale_rule && format.grid != ScaleGrid::kMx32) fail_usage("scale_rule: a choice of mxfp8 and mxfp4");
    if (two_level && format.grid != ScaleGrid::kNv16) fail_usage("two_level: a choice of nvfp4");
    if (power_of_two && !f32_scales) fail_usage("power_of_two: a choice of formats with f32 scales");
    format.scale_rule =
        chosen("scale_rule", scale_rule, std::array{Choice{"ceil", ScaleRule::kCeil}, Choice{"floor", ScaleRule::kFloor}});
    format.rounding =
        chosen("rounding", rounding,
               std::array{Choice{"nearest_even", Rounding::kNearest}, Choice{"stochastic", Rounding::kStochastic}});
    format.hadamard = chosen("hadamard", hadamard,
                             std::array{Choice{"none", Hadamard::kNone}, Choice{"fixed", Hadamard::kFixedSigns},
                                        Choice{"seeded", Hadamard::kSeededSigns}});
    format.two_level = two_level.value_or(format.two_level);
    format.square_blocks = square_blocks.value_or(format.square_blocks);
    format.power_of_two_scale = power_of_two.value_or(format.power_of_two_scale);
    format.four_over_six = four_over_six.value_or(format.four_over_six);
    return format;
  }
};

// Arrays of a quantised [rows, k] matrix, and the view of them that the engine takes.
struct QuantizedArrays {
  nb::ndarray<nb::numpy, std::uint8_t> codes;
  nb::ndarray<nb::numpy> scales;
  nb::ndarray<nb::numpy, float> tensor_scale = make_array<float>({1});

  QuantizedArrays(const QuantFormat& format, ScaleLayout layout, std::int64_t rows, std::int64_t k)
      : codes(make_array<std::uint8_t>({extent(rows), extent(code_row_bytes(format, k))})) {
    const ops::ScalesShape shape = ops::quantized_scales_shape(format, layout, rows, k);
    const std::size_t scale_rows = extent(shape.rows), scale_cols = extent(shape.cols);
    scales = shape.dtype == DType::kF32 ? nb::ndarray<nb::numpy>(make_array<float>({scale_rows, scale_cols}))
                                        : nb::ndarray<nb::numpy>(make_array<std::uint8_t>({scale_rows, scale_cols}));
  }
  ops::QuantizedView view() {
    const DType dtype = scales.dtype() == nb::dtype<float>() ? DType::kF32 : DType::kU8;
    return {matrix_view(codes.data(), DType::kU8, std::int64_t(codes.shape(0)), std::int64_t(codes.shape(1))),
            matrix_view(scales.data(), dtype, std::int64_t(scales.shape(0)), std::int64_t(scales.shape(1))),
            tensor_scale.data()};
  }
};

// Runs an op by the first implementation that takes it.
template <typename Desc, typename Args>
void run(const ops::ImplList<Desc, Args>& impls, const Desc& desc, const Args& args) {
  const runtime::DeviceInfo device;
  const auto& impl = impls.front();
  if (const ops::Refusal refusal = impl.supports(desc, device)) fail_usage("{}", refusal.reason);
  const nb::gil_scoped_release released;
  impl.run(desc, args, {.device = device, .workspace = {}});
}

using Result = std::tuple<nb::ndarray<nb::numpy, std::uint8_t>, nb::ndarray<nb::numpy>, nb::ndarray<nb::numpy, float>, int>;

// Codes, scales, tensor scale and the Hadamard transform's signs of x, or of its transpose.
Result quantize(const Input<float, 2>& x, const std::string& format_name, bool by_cols, const std::string& layout_name,
                const Choices& choices, std::uint64_t seed, std::uint64_t step, std::uint64_t tensor,
                std::optional<int> prescale) {
  const auto rows = static_cast<std::int64_t>(x.shape(0)), cols = static_cast<std::int64_t>(x.shape(1));
  const QuantFormat format = choices.apply(named_format(format_name));
  if (prescale && (*prescale < -126 || *prescale > 126)) fail_usage("prescale: expected -126 to 126, got {}", *prescale);
  ops::QuantizeDesc desc{.rows = rows, .cols = cols, .dtype = DType::kF32, .layout = named_layout(layout_name)};
  (by_cols ? desc.by_cols : desc.by_rows) = format;
  desc.has_prescale = prescale.has_value();
  QuantizedArrays out(format, desc.layout, by_cols ? cols : rows, by_cols ? rows : cols);
  const std::int32_t exponent = prescale.value_or(0);
  ops::QuantizeArgs args;
  args.x = matrix_view(const_cast<float*>(x.data()), DType::kF32, rows, cols);
  (by_cols ? args.by_cols : args.by_rows) = out.view();
  args.prescale = &exponent;
  args.step = &step;
  args.seed = seed;
  args.tensor = tensor;
  run(cpu::quantize_impls(), desc, args);
  const int signs = format.hadamard == Hadamard::kNone         ? -1
                    : format.hadamard == Hadamard::kFixedSigns ? kHadamardSigns
                                                               : hadamard_signs(seed, step);
  return {out.codes, out.scales, out.tensor_scale, signs};
}

// The values [rows, k]; `signs` of the transform to be undone, or -1.
nb::ndarray<nb::numpy, float> dequantize(const Input<std::uint8_t, 2>& codes, const Scales& scales,
                                         const Input<float, 1>& tensor_scale, const std::string& format_name,
                                         std::int64_t rows, std::int64_t k, const std::string& layout_name, int signs) {
  const QuantFormat format = named_format(format_name);
  const ops::DequantizeDesc desc{
      .rows = rows, .cols = k, .format = format, .layout = named_layout(layout_name), .dtype = DType::kF32};
  const ops::ScalesShape shape = ops::quantized_scales_shape(format, desc.layout, rows, k);
  const bool f32 = shape.dtype == DType::kF32;
  if (codes.shape(0) != extent(rows) || codes.shape(1) != extent(code_row_bytes(format, k)))
    fail_usage("codes: expected [{}, {}], got [{}, {}]", rows, code_row_bytes(format, k), codes.shape(0), codes.shape(1));
  if (scales.dtype() != (f32 ? nb::dtype<float>() : nb::dtype<std::uint8_t>()) || scales.shape(0) != extent(shape.rows) ||
      scales.shape(1) != extent(shape.cols))
    fail_usage("scales: expected {} [{}, {}], got another type or [{}, {}]", dtype_name(shape.dtype), shape.rows,
               shape.cols, scales.shape(0), scales.shape(1));
  if (tensor_scale.size() != 1) fail_usage("tensor_scale: expected one value, got {}", tensor_scale.size());
  nb::ndarray<nb::numpy, float> y = make_array<float>({extent(rows), extent(k)});
  ops::DequantizeArgs args;
  args.x.codes = matrix_view(const_cast<std::uint8_t*>(codes.data()), DType::kU8, rows, code_row_bytes(format, k));
  args.x.scales = matrix_view(scales.data(), shape.dtype, shape.rows, shape.cols);
  args.x.tensor_scale = const_cast<float*>(tensor_scale.data());
  args.y = matrix_view(y.data(), DType::kF32, rows, k);
  run(cpu::dequantize_impls(), desc, args);
  if (signs < 0) return y;
  for (float* x = y.data(); x != y.data() + rows * k; x += 16) {
    hadamard16(x, 0);
    for (int i = 0; i < 16; ++i)
      if ((signs >> i & 1) != 0) x[i] = -x[i];
  }
  return y;
}

// One code a byte of codes that lie two a byte: [rows, k].
nb::ndarray<nb::numpy, std::uint8_t> unpack_nibbles(const Input<std::uint8_t, 2>& codes, std::size_t k) {
  const std::size_t row_bytes = codes.shape(1);
  if (row_bytes != (k + 1) / 2) fail_usage("codes: {} bytes a row do not hold {} elements", row_bytes, k);
  nb::ndarray<nb::numpy, std::uint8_t> y = make_array<std::uint8_t>({codes.shape(0), k});
  for (std::size_t row = 0; row < codes.shape(0); ++row)
    for (std::size_t col = 0; col < k; ++col)
      y.data()[row * k + col] = nibble(codes.data()[row * row_bytes + col / 2], static_cast<int>(col % 2));
  return y;
}

// The exponent of the power-of-two prescale by the array's own amax.
int prescale_exponent_of(const Input<float, 2>& x) {
  Amax amax = 0;
  for (std::size_t i = 0; i < x.size(); ++i) amax = std::max(amax, magnitude_bits(x.data()[i]));
  return prescale_exponent(amax);
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def(
      "quantize",
      [](const Input<float, 2>& x, const std::string& format, bool by_cols, const std::string& layout,
         const std::optional<std::string>& scale_rule, const std::optional<std::string>& rounding,
         const std::optional<std::string>& hadamard, std::optional<bool> two_level, std::optional<bool> square_blocks,
         std::optional<bool> power_of_two, std::optional<bool> four_over_six, std::uint64_t seed, std::uint64_t step,
         std::uint64_t tensor, std::optional<int> prescale) {
        return quantize(x, format, by_cols, layout,
                        {scale_rule, rounding, hadamard, two_level, square_blocks, power_of_two, four_over_six}, seed, step,
                        tensor, prescale);
      },
      nb::arg("x").noconvert(), nb::kw_only(), nb::arg("format"), nb::arg("by_cols"), nb::arg("layout"),
      nb::arg("scale_rule").none(), nb::arg("rounding").none(), nb::arg("hadamard").none(), nb::arg("two_level").none(),
      nb::arg("square_blocks").none(), nb::arg("power_of_two").none(), nb::arg("four_over_six").none(), nb::arg("seed"),
      nb::arg("step"), nb::arg("tensor"), nb::arg("prescale").none());
  module.def("dequantize", dequantize, nb::arg("codes").noconvert(), nb::arg("scales").noconvert(),
             nb::arg("tensor_scale").noconvert(), nb::kw_only(), nb::arg("format"), nb::arg("rows"), nb::arg("k"),
             nb::arg("layout"), nb::arg("signs"));
  module.def("unpack_nibbles", unpack_nibbles, nb::arg("codes").noconvert(), nb::arg("k"));
  module.def("prescale_exponent", prescale_exponent_of, nb::arg("x").noconvert());
}

}  // namespace ida::python
