// Quantise and dequantise on the emulated device against the CPU's definition: every bit of codes and scales.
#include "backend/cpu/quantize.h"

#include "backend/cuda/op_impls.h"
#include "backend_cpu/op_test_support.h"
#include "formats/block_rules.h"

namespace ida::cuda {
namespace {

using cpu::HostTensor;
using formats::Hadamard;
using formats::QuantFormat;
using formats::Rounding;
using formats::ScaleGrid;
using formats::ScaleLayout;

runtime::DeviceInfo emulated_device() {
  runtime::DeviceInfo device;
  device.backend = runtime::BackendKind::kCuda;
  device.sm = 90;
  device.num_cores = 1;
  device.shared_bytes_per_block = 100 * 1024;
  return device;
}

QuantFormat named(std::string_view name) { return *formats::format_of_name(name); }
constexpr std::string_view kNames[] = {"fp8_tensor",   "fp8_tensor_e5m2", "fp8_row",    "fp8_vec128", "fp8_vec128_e5m2",
                                       "fp8_block128", "mxfp8",           "mxfp8_e5m2", "mxfp4",      "nvfp4"};

// A result in its own memory, NaN before it is written.
struct Result {
  Result(const QuantFormat& format, ScaleLayout layout, std::int64_t rows, std::int64_t k) {
    if (format.grid == ScaleGrid::kNone) return;
    const ops::ScalesShape shape = ops::quantized_scales_shape(format, layout, rows, k);
    codes = HostTensor(DType::kU8, rows, formats::code_row_bytes(format, k));
    scales = HostTensor(shape.dtype, shape.rows, shape.cols);
  }
  ops::QuantizedView view() { return {.codes = codes.view(), .scales = scales.view(), .tensor_scale = &tensor_scale}; }
  HostTensor codes, scales;
  float tensor_scale = -1.0f;
};

struct Results {
  explicit Results(const ops::QuantizeDesc& d)
      : by_rows(d.by_rows, d.layout, d.rows, d.cols), by_cols(d.by_cols, d.layout, d.cols, d.rows) {}
  Result by_rows, by_cols;
  HostTensor carry;
};

// Values over some binades; some blocks large, tiny, zero, or with one element that is not finite.
HostTensor values(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0) {
  HostTensor x(dtype, rows, cols, padding);
  x.randomize(1);
  x.for_each([&](std::int64_t r, std::int64_t c) {
    const std::int64_t block = r / 16 * 7 + c / 16 * 3;
    if (block % 5 == 1) x.set(r, c, x.at(r, c) * 0x1p-20);
    if (block % 11 == 2) x.set(r, c, x.at(r, c) * 1e4);
    if (block % 17 == 4) x.set(r, c, 0.0);
    if ((r * 31 + c) % 97 == 0) x.set(r, c, -0.0);
  });
  return x;
}
void add_specials(HostTensor& x) {
  const double specials[] = {NAN, -INFINITY, static_cast<double>(formats::kMaxF32), 0x1p-149, -0x1p-133, 0x1p-126, -NAN};
  std::int64_t i = 0;
  for (const double special : specials) {
    const std::int64_t at = ++i * 37 * 41 % (x.rows() * x.cols());
    x.set(at / x.cols(), at % x.cols(), special);
  }
}

class CudaQuantize : public testing::Test {
 protected:
  void run(const ops::Impl<ops::QuantizeDesc, ops::QuantizeArgs>& impl, const ops::QuantizeDesc& desc, const HostTensor& x,
           Results& results, const runtime::DeviceInfo& device) {
    const ops::QuantizeArgs args{.x = x.view(),
                                 .by_rows = results.by_rows.view(),
                                 .by_cols = results.by_cols.view(),
                                 .amax = desc.has_amax ? &amax_ : nullptr,
                                 .prescale = desc.has_prescale ? &prescale_ : nullptr,
                                 .carry = desc.error_feedback ? results.carry.view() : TensorView{},
                                 .step = &step_,
                                 .seed = 11,
                                 .tensor = 3};
    cpu::run_impl(impl, desc, args, device);
  }

  static std::string first_difference(const HostTensor& got, const HostTensor& want) {
    const auto& a = got.bytes();
    const auto& b = want.bytes();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        return fmt::format("byte {} of {}: {:02x}, expected {:02x}", i, a.size(), static_cast<int>(a[i]),
                           static_cast<int>(b[i]));
    return "none";
  }
  static void expect_same(const Result& got, const Result& want, const std::string& what) {
    EXPECT_TRUE(cpu::same_bits(got.codes, want.codes)) << what << " codes: " << first_difference(got.codes, want.codes);
    EXPECT_TRUE(cpu::same_bits(got.scales, want.scales))
        << what << " scales: " << first_difference(got.scales, want.scales);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got.tensor_scale), std::bit_cast<std::uint32_t>(want.tensor_scale)) << what;
  }

  void expect_definition(const ops::QuantizeDesc& desc, const HostTensor& x) {
    Results want(desc);
    if (desc.error_feedback) want.carry = HostTensor(DType::kF32, desc.rows, desc.cols).randomize(5, 1e-3);
    const HostTensor carry = want.carry;
    run(cpu::quantize_impls().back(), desc, x, want, cpu::devices_of_every_isa()[0]);
    ops::QuantizeList impls = quantize_impls();
    impls.push_back(quantize_record_impls().front());
    for (const auto& impl : impls) {
      if (impl.supports(desc, emulated_device())) continue;
      Results got(desc);
      got.carry = carry;
      run(impl, desc, x, got, emulated_device());
      const std::string what = fmt::format("{} {}", impl.name, desc.to_string());
      expect_same(got.by_rows, want.by_rows, what + " by rows");
      expect_same(got.by_cols, want.by_cols, what + " by columns");
      EXPECT_TRUE(cpu::same_bits(got.carry, want.carry)) << what;
      ++compared_;
    }
  }

  std::uint32_t amax_ = std::bit_cast<std::uint32_t>(3.5f);
  std::int32_t prescale_ = -3;
  std::uint64_t step_ = 12345;
  int compared_ = 0;
};

TEST_F(CudaQuantize, TilesOfEveryFormatAndDirection) {
  const HostTensor x = values(DType::kBF16, 256, 128, 8);
  HostTensor special = x;
  add_specials(special);
  for (const std::string_view name : kNames) {
    for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
      for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
        QuantFormat f = named(name);
        f.rounding = rounding;
        expect_definition({.rows = 256, .cols = 128, .by_rows = f, .by_cols = {}, .layout = layout}, x);
        expect_definition({.rows = 256, .cols = 128, .by_rows = {}, .by_cols = f, .layout = layout}, x);
        expect_definition({.rows = 256, .cols = 128, .by_rows = f, .by_cols = f, .layout = layout}, special);
      }
    }
  }
  constexpr int kRecorded = 2 * 3;  // layouts and MX formats, by columns, nearest
  EXPECT_EQ(compared_, 2 * 3 * 2 * 2 * static_cast<int>(std::size(kNames)) + kRecorded);
}

TEST_F(CudaQuantize, TilesWithEveryChoice) {
  const HostTensor x = values(DType::kBF16, 128, 256);
  HostTensor special = x;
  add_specials(special);
  for (const std::string_view name : kNames) {
    const bool blocks = name.starts_with("mx") || name.starts_with("nv");
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      QuantFormat plain = named(name);
      plain.rounding = rounding;
      QuantFormat changed = plain;
      changed.scale_rule = formats::ScaleRule::kFloor;
      changed.two_level = false;
      changed.power_of_two_scale = true;
      QuantFormat transformed = plain;
      transformed.hadamard = blocks ? Hadamard::kFixedSigns : Hadamard::kNone;
      QuantFormat seeded = changed;
      seeded.hadamard = blocks ? Hadamard::kSeededSigns : Hadamard::kNone;
      for (const HostTensor& each : {x, special}) {
        expect_definition({.rows = 128, .cols = 256, .by_rows = changed, .by_cols = changed}, each);
        expect_definition({.rows = 128, .cols = 256, .by_rows = plain, .by_cols = transformed}, each);
        expect_definition({.rows = 128, .cols = 256, .by_rows = transformed, .by_cols = seeded}, each);
      }
      expect_definition({.rows = 128, .cols = 256, .by_rows = plain, .by_cols = plain, .has_amax = true}, special);
      expect_definition({.rows = 128, .cols = 256, .by_rows = changed, .by_cols = plain, .has_prescale = true}, special);
      expect_definition(
          {.rows = 128, .cols = 256, .by_rows = plain, .by_cols = plain, .has_amax = true, .has_prescale = true}, x);
    }
  }
}

TEST_F(CudaQuantize, AnyShapeAndChoice) {
  struct Shape {
    std::int64_t rows, cols, padding;
  };
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Shape& s :
         {Shape{1, 16, 0}, {2, 48, 3}, {127, 32, 0}, {129, 144, 1}, {33, 712, 0}, {5, 257, 0}, {128, 128, 1}}) {
      HostTensor x = values(dtype, s.rows, s.cols, s.padding);
      for (const std::string_view name : kNames) {
        for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
          QuantFormat f = named(name);
          QuantFormat drawn = f;
          drawn.rounding = Rounding::kStochastic;
          expect_definition(
              {.rows = s.rows, .cols = s.cols, .dtype = dtype, .by_rows = f, .by_cols = drawn, .layout = layout}, x);
          if (name.starts_with("mx") || name.starts_with("nv")) {
            f.square_blocks = true;
            expect_definition(
                {.rows = s.rows, .cols = s.cols, .dtype = dtype, .by_rows = f, .by_cols = f, .layout = layout}, x);
            f.square_blocks = false;
          }
          if (name == "nvfp4") {
            f.four_over_six = true;
            expect_definition(
                {.rows = s.rows, .cols = s.cols, .dtype = dtype, .by_rows = f, .by_cols = f, .layout = layout}, x);
            f.four_over_six = false;
          }
          expect_definition({.rows = s.rows,
                             .cols = s.cols,
                             .dtype = dtype,
                             .by_rows = f,
                             .by_cols = {},
                             .layout = layout,
                             .error_feedback = true},
                            x);
        }
      }
    }
  }
}

TEST_F(CudaQuantize, DequantizesEveryFormat) {
  for (const std::int64_t cols : {std::int64_t{48}, std::int64_t{57}, std::int64_t{256}}) {
    for (const std::string_view name : kNames) {
      for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
        HostTensor x = values(DType::kF32, 130, cols);
        add_specials(x);
        const ops::QuantizeDesc quantize{
            .rows = 130, .cols = cols, .dtype = DType::kF32, .by_rows = named(name), .by_cols = {}, .layout = layout};
        Results results(quantize);
        run(cpu::quantize_impls().back(), quantize, x, results, cpu::devices_of_every_isa()[0]);
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          for (const bool with_tensor_scale : {false, true}) {
            const ops::DequantizeDesc desc{.rows = 130,
                                           .cols = cols,
                                           .format = named(name),
                                           .layout = layout,
                                           .dtype = dtype,
                                           .with_tensor_scale = with_tensor_scale};
            HostTensor want(dtype, 130, cols, 8), got = want;
            cpu::run_impl(cpu::dequantize_impls().back(), desc, {results.by_rows.view(), want.view()},
                          cpu::devices_of_every_isa()[0]);
            cpu::run_impl(dequantize_impls().back(), desc, {results.by_rows.view(), got.view()}, emulated_device());
            want.for_each([&](std::int64_t r, std::int64_t c) {
              const bool same = std::isnan(want.at(r, c)) ? std::isnan(got.at(r, c)) : got.at(r, c) == want.at(r, c);
              if (!same) ADD_FAILURE() << desc.to_string() << " at " << r << " " << c;
            });
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda
