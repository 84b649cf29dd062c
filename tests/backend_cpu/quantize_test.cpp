#include "backend/cpu/quantize.h"

#include <algorithm>
#include <map>

#include "backend/cpu/gemm_emulated.h"
#include "formats/block_rules.h"
#include "op_test_support.h"

namespace ida::cpu {
namespace {

using namespace formats;

// A quantised matrix of its own memory.
struct Quantized {
  Quantized(const QuantFormat& f, ScaleLayout layout, std::int64_t num_rows, std::int64_t num_k)
      : format(f),
        rows(num_rows),
        k(num_k),
        codes(DType::kU8, rows, code_row_bytes(f, k)),
        tensor_scale(DType::kF32, 1, 1) {
    const ops::ScalesShape shape = ops::quantized_scales_shape(f, layout, rows, k);
    scales = HostTensor(shape.dtype, shape.rows, shape.cols);
  }
  ops::QuantizedView view() const {
    return {.codes = codes.view(), .scales = scales.view(), .tensor_scale = tensor_scale.view().as<float>()};
  }
  std::uint8_t code(std::int64_t row, std::int64_t col) const {
    const auto* bytes = codes.view().as<std::uint8_t>() + row * code_row_bytes(format, k);
    return format.element == Element::kE2m1 ? nibble(bytes[col / 2], static_cast<int>(col % 2)) : bytes[col];
  }
  QuantFormat format;
  std::int64_t rows, k;
  HostTensor codes, scales, tensor_scale;
};

runtime::DeviceInfo device() { return devices_of_every_isa()[0]; }

struct Result {
  Quantized by_rows, by_cols;
};
Result quantize(const HostTensor& x, DType dtype, const QuantFormat& format, ScaleLayout layout = ScaleLayout::kRows,
                const std::int32_t* prescale = nullptr, std::uint64_t step = 0) {
  Result r{{format, layout, x.rows(), x.cols()}, {format, layout, x.cols(), x.rows()}};
  const ops::QuantizeDesc desc{.rows = x.rows(),
                               .cols = x.cols(),
                               .dtype = dtype,
                               .by_rows = format,
                               .by_cols = format,
                               .layout = layout,
                               .has_prescale = prescale != nullptr};
  run_impl(quantize_impls().back(), desc,
           {.x = x.view(),
            .by_rows = r.by_rows.view(),
            .by_cols = r.by_cols.view(),
            .prescale = prescale,
            .step = &step,
            .seed = 7,
            .tensor = 3},
           device());
  return r;
}

std::vector<double> dequantize(const Quantized& q, ScaleLayout layout = ScaleLayout::kRows) {
  HostTensor y(DType::kF32, q.rows, q.k);
  run_impl(dequantize_impls().back(),
           {.rows = q.rows, .cols = q.k, .format = q.format, .layout = layout, .dtype = DType::kF32},
           {.x = q.view(), .y = y.view()}, device());
  return y.values();
}

std::uint8_t nearest(Element e, float x) {
  return e == Element::kE4m3   ? encode_nearest<E4m3>(x)
         : e == Element::kE5m2 ? encode_nearest<E5m2>(x)
                               : encode_nearest<E2m1>(x);
}

// What every code and scale must be, element by element from the text of docs/formats.md; x is row-major [rows, k].
void expect_by_definition(const Quantized& q, const std::vector<float>& x) {
  const QuantFormat& f = q.format;
  const std::int64_t width = block_size(f.grid) == 0 ? q.k : block_size(f.grid);
  const std::int64_t height = block_rows(f) == 0 ? q.rows : block_rows(f);
  const auto at = [&](std::int64_t r, std::int64_t c) { return x[static_cast<std::size_t>(r * q.k + c)]; };
  Amax all = 0;
  for (const float v : x) all = std::max(all, magnitude_bits(v));
  const float g = nvfp4_tensor_scale(all, f);
  if (f.grid == ScaleGrid::kNv16) {
    EXPECT_EQ(q.tensor_scale.at(0, 0), static_cast<double>(g));
  }
  std::map<std::pair<std::int64_t, std::int64_t>, Amax> groups;
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t c = 0; c < q.k; ++c) {
      Amax& amax = groups[{r / height, c / width}];
      amax = std::max(amax, magnitude_bits(at(r, c)));
    }
  }
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t c = 0; c < q.k; ++c) {
      const Amax amax = groups[{r / height, c / width}];
      const std::int64_t place_row = f.grid == ScaleGrid::kTensor ? 0 : f.grid == ScaleGrid::kBlock128 ? r / 128 : r;
      const std::int64_t place_col = block_size(f.grid) == 0 ? 0 : c / width;
      if (has_f32_scales(f.grid)) {
        const F32Scale s = f32_scale(amax, f.element, f.power_of_two_scale);
        ASSERT_EQ(q.scales.at(place_row, place_col), static_cast<double>(s.decode)) << r << " " << c;
        ASSERT_EQ(q.code(r, c), nearest(f.element, at(r, c) * s.encode)) << r << " " << c;
        continue;
      }
      const std::uint8_t byte = q.scales.view().as<std::uint8_t>()[place_row * q.scales.cols() + place_col];
      if (f.grid == ScaleGrid::kMx32) {
        ASSERT_EQ(byte, mx_scale(amax, f.element, f.scale_rule));
        ASSERT_EQ(q.code(r, c), nearest(f.element, at(r, c) / decode_ue8m0(byte))) << r << " " << c;
      } else {
        ASSERT_EQ(byte, nvfp4_block_scale(amax, g, 6.0f));
        ASSERT_EQ(q.code(r, c), nvfp4_code_nearest(at(r, c), byte, g)) << r << " " << c;
      }
    }
  }
}

std::vector<QuantFormat> formats_under_test() {
  std::vector<QuantFormat> list;
  for (const char* name : {"fp8_tensor", "fp8_tensor_e5m2", "fp8_row", "fp8_vec128", "fp8_block128", "mxfp8", "mxfp8_e5m2",
                           "mxfp4", "nvfp4"}) {
    const QuantFormat format = *format_of_name(name);
    list.push_back(format);
    QuantFormat other = format;
    if (format.grid == ScaleGrid::kMx32) {
      other.scale_rule = ScaleRule::kFloor;
    } else if (format.grid == ScaleGrid::kNv16) {
      other.two_level = false;
    } else {
      other.power_of_two_scale = true;
    }
    list.push_back(other);
    if (!has_f32_scales(format.grid)) {
      other = format;
      other.square_blocks = true;
      list.push_back(other);
    }
  }
  return list;
}

std::vector<float> floats(const HostTensor& x, bool transposed) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < (transposed ? x.cols() : x.rows()); ++i)
    for (std::int64_t j = 0; j < (transposed ? x.rows() : x.cols()); ++j)
      out.push_back(static_cast<float>(transposed ? x.at(j, i) : x.at(i, j)));
  return out;
}

// Sizes that end blocks early, both directions; magnitudes over many binades, so that groups differ.
TEST(Quantize, EveryFormatIsItsDefinition) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 130}, {129, 33}, {32, 64}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      HostTensor x(dtype, rows, cols, 5);
      x.randomize(1);
      x.for_each([&](auto r, auto c) { x.set(r, c, std::ldexp(x.at(r, c), static_cast<int>((r * 3 + c / 7) % 30) - 15)); });
      for (const QuantFormat& format : formats_under_test()) {
        SCOPED_TRACE(format_name(format) + (format.square_blocks ? " square" : "") + " of " + std::to_string(rows));
        const Result got = quantize(x, dtype, format);
        expect_by_definition(got.by_rows, floats(x, false));
        expect_by_definition(got.by_cols, floats(x, true));
      }
    }
  }
}

TEST(Quantize, TheLayoutOfProductsHoldsTheSameScales) {
  HostTensor x(DType::kF32, 150, 270);
  x.randomize(2);
  for (const QuantFormat& format : formats_under_test()) {
    const Result plain = quantize(x, DType::kF32, format);
    const Result product = quantize(x, DType::kF32, format, ScaleLayout::kProduct);
    EXPECT_TRUE(same_bits(plain.by_rows.codes, product.by_rows.codes));
    EXPECT_EQ(dequantize(plain.by_rows), dequantize(product.by_rows, ScaleLayout::kProduct)) << format_name(format);
    EXPECT_EQ(dequantize(plain.by_cols), dequantize(product.by_cols, ScaleLayout::kProduct)) << format_name(format);
    if (has_f32_scales(format.grid)) continue;
    // Every byte is a scale or zero.
    const auto* bytes = product.by_rows.scales.view().as<std::uint8_t>();
    const std::int64_t per_row = scales_per_row(format, 270);
    for (std::int64_t offset = 0; offset < product.by_rows.scales.cols(); ++offset) {
      const ScalePlace place = tiled_scale_place(offset, per_row);
      const bool inside = place.row < 150 && place.col < per_row;
      const std::uint8_t want =
          inside ? plain.by_rows.scales.view().as<std::uint8_t>()[place.row * per_row + place.col] : 0;
      ASSERT_EQ(bytes[offset], want) << offset;
    }
  }
}

TEST(Quantize, SquareBlocksAreTheSameForAMatrixAndItsTranspose) {
  HostTensor w(DType::kBF16, 96, 160);
  w.randomize(3, 0.02);
  for (QuantFormat format : {*format_of_name("mxfp8"), *format_of_name("mxfp4"), *format_of_name("nvfp4")}) {
    for (const bool square : {true, false}) {
      format.square_blocks = square;
      const Result got = quantize(w, DType::kBF16, format);
      const std::vector<double> rows = dequantize(got.by_rows), cols = dequantize(got.by_cols);
      int differ = 0;
      for (std::size_t r = 0; r < 96; ++r)
        for (std::size_t c = 0; c < 160; ++c) differ += rows[r * 160 + c] != cols[c * 96 + r] ? 1 : 0;
      EXPECT_EQ(differ == 0, square) << format_name(format);
    }
  }
}

// A group that holds what is not finite decodes to NaN as a whole, and no other group does.
TEST(Quantize, WhatIsNotFiniteStaysSo) {
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    HostTensor x(DType::kF32, 4, 256);
    x.randomize(4);
    x.set(1, 40, bad);
    for (const QuantFormat& format : formats_under_test()) {
      const std::vector<double> got = dequantize(quantize(x, DType::kF32, format).by_rows);
      EXPECT_TRUE(std::isnan(got[256 + 40])) << format_name(format);
      const bool whole = format.grid == ScaleGrid::kTensor || format.grid == ScaleGrid::kBlock128 ||
                         (format.grid == ScaleGrid::kNv16 && format.two_level);
      const bool row = format.grid == ScaleGrid::kRow || format.grid == ScaleGrid::kVec128;
      EXPECT_EQ(std::isnan(got[0]), whole) << format_name(format);
      EXPECT_EQ(std::isnan(got[256]), whole || row) << format_name(format);
    }
  }
}

TEST(Quantize, ZerosAndExtremesHaveStatedResults) {
  HostTensor x(DType::kF32, 2, 128);
  x.fill(0.0);
  x.set(0, 1, -0.0);
  for (const QuantFormat& format : formats_under_test()) {
    const Result got = quantize(x, DType::kF32, format);
    for (const double v : dequantize(got.by_rows)) EXPECT_EQ(v, 0.0) << format_name(format);
    const bool kept = format.grid != ScaleGrid::kNv16;
    EXPECT_EQ(got.by_rows.code(0, 1) != 0, kept) << "the sign of zero, " << format_name(format);
    if (format.grid == ScaleGrid::kMx32) {
      EXPECT_EQ(got.by_rows.scales.view().as<std::uint8_t>()[0], 0);
    }
  }
  x.fill(static_cast<double>(std::numeric_limits<float>::max()));
  for (const QuantFormat& format : formats_under_test()) {
    if (format.grid == ScaleGrid::kNv16 && !format.two_level) continue;  // saturates at 448 * 6
    // Under a power of two it is rounded to 256 (or 4, or 2^15) of it, 2^128: beyond f32.
    const bool beyond =
        (format.grid == ScaleGrid::kMx32 && format.scale_rule == ScaleRule::kCeil) || format.power_of_two_scale;
    for (const double v : dequantize(quantize(x, DType::kF32, format).by_rows)) {
      ASSERT_EQ(std::isinf(v), beyond) << format_name(format);
      if (beyond) continue;
      ASSERT_NEAR(v / static_cast<double>(std::numeric_limits<float>::max()), 1.0, 0.51) << format_name(format);
    }
  }
}

TEST(Quantize, ThePrescaleIsUndoneExactly) {
  HostTensor x(DType::kF32, 32, 128);
  x.randomize(5, 1e-6);
  QuantFormat single = *format_of_name("nvfp4");
  single.two_level = false;
  for (const double v : dequantize(quantize(x, DType::kF32, single).by_rows)) ASSERT_EQ(v, 0.0) << "below the cliff";
  Amax amax = 0;
  x.for_each([&](auto r, auto c) { amax = std::max(amax, magnitude_bits(static_cast<float>(x.at(r, c)))); });
  const std::int32_t exponent = prescale_exponent(amax);
  HostTensor scaled = x;
  x.for_each([&](auto r, auto c) { scaled.set(r, c, std::ldexp(x.at(r, c), exponent)); });
  for (const QuantFormat& format : formats_under_test()) {
    const Result got = quantize(x, DType::kF32, format, ScaleLayout::kRows, &exponent);
    const Result plain = quantize(scaled, DType::kF32, format);
    EXPECT_TRUE(same_bits(got.by_rows.codes, plain.by_rows.codes)) << format_name(format);
    std::vector<double> values = dequantize(plain.by_rows);
    for (double& v : values) v = std::ldexp(v, -exponent);
    EXPECT_EQ(dequantize(got.by_rows), values) << format_name(format);
  }
  EXPECT_LT(relative_error(dequantize(quantize(x, DType::kF32, single, ScaleLayout::kRows, &exponent).by_rows), x.values()),
            0.1);
}

TEST(Quantize, StochasticRoundingRepeatsAndDependsOnTheStep) {
  HostTensor x(DType::kBF16, 64, 256);
  x.randomize(6);
  for (QuantFormat format : formats_under_test()) {
    format.rounding = Rounding::kStochastic;
    const Result a = quantize(x, DType::kBF16, format, ScaleLayout::kRows, nullptr, 5);
    const Result b = quantize(x, DType::kBF16, format, ScaleLayout::kRows, nullptr, 5);
    const Result c = quantize(x, DType::kBF16, format, ScaleLayout::kRows, nullptr, 6);
    EXPECT_TRUE(same_bits(a.by_rows.codes, b.by_rows.codes));
    EXPECT_FALSE(same_bits(a.by_rows.codes, c.by_rows.codes)) << "the same draw in another step";
    EXPECT_TRUE(same_bits(a.by_rows.scales, c.by_rows.scales));
  }
}

// The mean over steps comes near x, which no single nearest rounding does; and a ramp does not come out all zero.
TEST(Quantize, StochasticRoundingIsRightOnAverage) {
  HostTensor x(DType::kF32, 1, 64);
  x.for_each([&](auto, auto c) { x.set(0, c, 0.01 * static_cast<double>(c)); });
  for (const char* name : {"mxfp4", "nvfp4", "mxfp8"}) {
    QuantFormat format = *format_of_name(name);
    format.rounding = Rounding::kStochastic;
    std::vector<double> mean(64, 0.0);
    constexpr int kSteps = 500;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<double> got = dequantize(
          quantize(x, DType::kF32, format, ScaleLayout::kRows, nullptr, static_cast<std::uint64_t>(step)).by_rows);
      for (std::size_t i = 0; i < got.size(); ++i) mean[i] += got[i] / kSteps;
      if (step > 0) continue;
      EXPECT_GT(std::count_if(got.begin(), got.end(), [](double v) { return v != 0.0; }), 40) << name;
    }
    // The largest gap between neighbours here is that of e2m1 under the largest scale, 2/6 of amax.
    for (std::size_t i = 0; i < mean.size(); ++i) {
      if (std::string(name) == "nvfp4" && i % 16 == 15)
        continue;  // at the block's maximum the scale's rounding saturates it
      EXPECT_NEAR(mean[i], x.at(0, static_cast<std::int64_t>(i)), 5 * 0.64 / 3 / 2 / std::sqrt(kSteps)) << name << " " << i;
    }
  }
}

TEST(Quantize, TheHadamardTransformIsOfTheQuantisedValues) {
  HostTensor x(DType::kF32, 48, 64);
  x.randomize(8);
  x.set(3, 5, 80.0);
  for (const char* name : {"nvfp4", "mxfp4", "fp8_tensor"}) {
    QuantFormat format = *format_of_name(name);
    format.hadamard = Hadamard::kFixedSigns;
    QuantFormat plain = format;
    plain.hadamard = Hadamard::kNone;
    const Result got = quantize(x, DType::kF32, format);
    std::vector<float> rows = floats(x, false), cols = floats(x, true);
    for (auto* values : {&rows, &cols})
      for (std::size_t at = 0; at < values->size(); at += 16) hadamard16(values->data() + at, kHadamardSigns);
    Quantized by_rows = got.by_rows, by_cols = got.by_cols;
    by_rows.format = by_cols.format = plain;
    expect_by_definition(by_rows, rows);
    expect_by_definition(by_cols, cols);
  }
}

TEST(Quantize, FourOverSixIsNeverWorseByItsMeasure) {
  HostTensor x(DType::kF32, 64, 256);
  x.randomize(9);
  QuantFormat format = *format_of_name("nvfp4");
  format.four_over_six = true;
  const Quantized got = quantize(x, DType::kF32, format).by_rows;
  const std::vector<double> values = dequantize(got);
  const auto g = static_cast<float>(got.tensor_scale.at(0, 0));
  int fours = 0;
  for (std::int64_t r = 0; r < 64; ++r) {
    for (std::int64_t block = 0; block < 16; ++block) {
      Amax amax = 0;
      double error = 0.0, six_error = 0.0;
      for (std::int64_t c = block * 16; c < block * 16 + 16; ++c)
        amax = std::max(amax, magnitude_bits(static_cast<float>(x.at(r, c))));
      const std::uint8_t six = nvfp4_block_scale(amax, g, 6.0f);
      for (std::int64_t c = block * 16; c < block * 16 + 16; ++c) {
        const auto v = static_cast<float>(x.at(r, c));
        const double by_six =
            static_cast<double>(decode<E2m1>(nvfp4_code_nearest(v, six, g)) * decode<E4m3>(six) * g) - x.at(r, c);
        six_error += by_six * by_six;
        error += std::pow(values[static_cast<std::size_t>(r * 256 + c)] - x.at(r, c), 2);
      }
      EXPECT_LE(error, six_error * (1 + 1e-5));
      fours += got.scales.view().as<std::uint8_t>()[r * 16 + block] != six ? 1 : 0;
    }
  }
  EXPECT_GT(fours, 100) << "some blocks are better off with 4";
  EXPECT_LT(fours, 900);
}

// What a step loses comes back later: the sum of all that was written is the sum of all that was asked for.
TEST(Quantize, ErrorFeedbackLosesNothing) {
  QuantFormat format = *format_of_name("nvfp4");
  for (const bool prescaled : {false, true}) {
    const std::int32_t exponent = 6;
    HostTensor carry(DType::kF32, 8, 64), x(DType::kF32, 8, 64);
    carry.fill(0.0);
    std::vector<double> written(512, 0.0), asked(512, 0.0);
    for (std::uint64_t step = 0; step < 20; ++step) {
      x.randomize(20 + step);
      Quantized out(format, ScaleLayout::kRows, 8, 64);
      run_impl(quantize_impls().back(),
               {.rows = 8,
                .cols = 64,
                .dtype = DType::kF32,
                .by_rows = format,
                .has_prescale = prescaled,
                .error_feedback = true},
               {.x = x.view(), .by_rows = out.view(), .by_cols = {}, .prescale = &exponent, .carry = carry.view()},
               device());
      const std::vector<double> values = dequantize(out);
      for (std::size_t i = 0; i < values.size(); ++i) {
        written[i] += values[i];
        asked[i] += x.values()[i];
      }
    }
    for (std::size_t i = 0; i < written.size(); ++i) EXPECT_NEAR(written[i] + carry.values()[i], asked[i], 2e-5);
    for (const double c : carry.values()) EXPECT_LT(std::abs(c), 1.0) << "the carry stays within a step of the format";
  }
}

TEST(Quantize, DoesNotDependOnThreads) {
  HostTensor x(DType::kBF16, 200, 300);
  x.randomize(10);
  for (QuantFormat format : formats_under_test()) {
    format.rounding = Rounding::kStochastic;
    set_num_threads(1);
    const Result one = quantize(x, DType::kBF16, format);
    set_num_threads(3);
    const Result three = quantize(x, DType::kBF16, format);
    set_num_threads(0);
    EXPECT_TRUE(same_bits(one.by_rows.codes, three.by_rows.codes) && same_bits(one.by_cols.codes, three.by_cols.codes));
    EXPECT_TRUE(same_bits(one.by_rows.scales, three.by_rows.scales) && same_bits(one.by_cols.scales, three.by_cols.scales));
  }
}

TEST(Quantize, RefusesWhatHasNoMeaning) {
  const auto refusal = [](auto change) {
    ops::QuantizeDesc desc{.rows = 32, .cols = 40, .dtype = DType::kF32, .by_rows = *format_of_name("nvfp4")};
    change(desc);
    return ops::refuse_choices(desc).kind;
  };
  using Desc = ops::QuantizeDesc;
  EXPECT_EQ(refusal([](Desc&) {}), ops::RefusalKind::kNone);
  EXPECT_EQ(refusal([](Desc& d) { d.by_rows.hadamard = Hadamard::kFixedSigns; }), ops::RefusalKind::kShape);
  EXPECT_EQ(refusal([](Desc& d) { d.by_rows.element = Element::kE4m3; }), ops::RefusalKind::kDType);
  EXPECT_EQ(refusal([](Desc& d) { d.by_rows.grid = ScaleGrid::kRow; }), ops::RefusalKind::kDType);
  EXPECT_EQ(refusal([](Desc& d) { d.dtype = DType::kI32; }), ops::RefusalKind::kDType);
  EXPECT_EQ(refusal([](Desc& d) { d.error_feedback = true; }), ops::RefusalKind::kNone);
  EXPECT_EQ(refusal([](Desc& d) { d.error_feedback = d.has_amax = true; }), ops::RefusalKind::kDType);
  EXPECT_EQ(refusal([](Desc& d) {
              d.by_rows.four_over_six = true;
              d.by_rows.rounding = Rounding::kStochastic;
            }),
            ops::RefusalKind::kDType);
}

// The product of what dequantise gives, in f64.
TEST(GemmEmulated, IsTheProductOfTheBytesThatThePackWrote) {
  for (const char* name : {"mxfp8", "mxfp4", "nvfp4", "fp8_tensor", "fp8_row", "fp8_vec128"}) {
    const QuantFormat format = *format_of_name(name);
    HostTensor a(DType::kF32, 20, 128), b(DType::kF32, 24, 128);
    const HostTensor bias = HostTensor(DType::kBF16, 1, 24).randomize(3, 0.1);
    a.randomize(1, 1e-3);
    b.randomize(2, 50.0);
    const Quantized qa = quantize(a, DType::kF32, format, ScaleLayout::kProduct).by_rows;
    const Quantized qb = quantize(b, DType::kF32, format, ScaleLayout::kProduct).by_rows;
    const std::vector<double> wide_a = dequantize(qa, ScaleLayout::kProduct),
                              wide_b = dequantize(qb, ScaleLayout::kProduct);
    std::vector<double> want;
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < 24; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < 128; ++k) sum += wide_a[i * 128 + k] * wide_b[j * 128 + k];
        want.push_back(0.25 * sum + bias.at(0, static_cast<std::int64_t>(j)));
      }
    }
    ops::GemmDesc desc{.m = 20, .n = 24, .k = 128, .b_transposed = true, .has_bias = true};
    desc.a_dtype = desc.b_dtype = DType::kU8;
    desc.a_format = desc.b_format = format;
    const auto impl = has_f32_scales(format.grid) ? gemm_emulated_f32() : gemm_emulated_bf16(false);
    HostTensor c(DType::kF32, 20, 24);
    const float alpha = 0.25f;
    run_impl(impl, desc,
             {.a = {},
              .b = {},
              .c = c.view(),
              .bias = bias.view(),
              .alpha = &alpha,
              .a_quantized = qa.view(),
              .b_quantized = qb.view()},
             device());
    EXPECT_LT(relative_error(c.values(), want), 1e-6) << name;
    EXPECT_TRUE(impl.supports({.m = 1, .n = 1, .k = 1}, device())) << "not quantised";
  }
}

}  // namespace
}  // namespace ida::cpu
