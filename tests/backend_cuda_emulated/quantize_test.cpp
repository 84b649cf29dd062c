// Quantise and dequantise on the emulated device against the CPU's definition: every bit of codes and scales.
#include "backend/cpu/quantize.h"

#include "backend/cuda/op_impls.h"
#include "backend_cpu/quantized_results.h"
#include "emulated_device.h"

namespace ida::cuda {
namespace {

using namespace cpu;  // HostTensor, Results
using formats::Hadamard;
using formats::Rounding;

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

// Tiles at the edges of matrices whose sizes are multiples of 32 alone; square blocks.
TEST_F(CudaQuantize, TilesInPart) {
  struct Shape {
    std::int64_t rows, cols;
  };
  int tiled = 0;
  for (const Shape& s : {Shape{32, 32}, {96, 160}, {160, 576}, {288, 64}, {128, 192}}) {
    HostTensor x = values(DType::kBF16, s.rows, s.cols, 8);
    add_specials(x);
    for (const std::string_view name : kNames) {
      for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
        QuantFormat f = named(name);
        const bool blocks = name.starts_with("mx") || name.starts_with("nv");
        QuantFormat transformed = f;
        transformed.rounding = Rounding::kStochastic;
        transformed.hadamard = blocks ? Hadamard::kSeededSigns : Hadamard::kNone;
        QuantFormat square = f;
        square.square_blocks = blocks;
        QuantFormat drawn = square;
        drawn.rounding = Rounding::kStochastic;
        for (const auto& [by_rows, by_cols] : {std::pair{f, f},
                                               {f, QuantFormat{}},
                                               {QuantFormat{}, f},
                                               {f, transformed},
                                               {square, square},
                                               {drawn, QuantFormat{}},
                                               {f, drawn}}) {
          expect_definition({.rows = s.rows, .cols = s.cols, .by_rows = by_rows, .by_cols = by_cols, .layout = layout}, x);
          ++tiled;
        }
      }
    }
  }
  EXPECT_EQ(compared_, 2 * tiled);
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
      QuantFormat square = plain;
      square.square_blocks = blocks;
      expect_definition({.rows = 128, .cols = 256, .by_rows = square, .by_cols = square, .has_prescale = true}, x);
      expect_definition({.rows = 128, .cols = 256, .by_rows = square, .by_cols = square}, special);
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
