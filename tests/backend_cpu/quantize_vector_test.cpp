// The vector form of quantisation against the definition, every bit, on every instruction set.
#include <gtest/gtest.h>

#include "backend/cpu/quantize.h"
#include "formats/block_rules.h"
#include "op_test_support.h"

namespace ida::cpu {
namespace {

using namespace formats;
using ops::QuantizeDesc;

constexpr std::string_view kNames[] = {"fp8_tensor",   "fp8_tensor_e5m2", "fp8_row",    "fp8_vec128", "fp8_vec128_e5m2",
                                       "fp8_block128", "mxfp8",           "mxfp8_e5m2", "mxfp4",      "nvfp4"};
QuantFormat named(std::string_view name) { return *format_of_name(name); }

QuantFormat with_other_choices(QuantFormat f) {
  f.scale_rule = ScaleRule::kFloor;
  f.two_level = false;
  f.power_of_two_scale = has_f32_scales(f.grid);
  return f;
}

// A result in its own memory, bytes 0xFF before it is written, rows further apart than they are long.
struct Output {
  Output(const QuantFormat& format, ScaleLayout layout, std::int64_t rows, std::int64_t k) {
    if (format.grid == ScaleGrid::kNone) return;
    const ops::ScalesShape shape = ops::quantized_scales_shape(format, layout, rows, k);
    codes = HostTensor(DType::kU8, rows, code_row_bytes(format, k), 5);
    scales = HostTensor(shape.dtype, shape.rows, shape.cols);
  }
  ops::QuantizedView view() { return {.codes = codes.view(), .scales = scales.view(), .tensor_scale = &tensor_scale}; }
  HostTensor codes, scales;
  float tensor_scale = -1.0f;
};

struct Outputs {
  explicit Outputs(const QuantizeDesc& d)
      : by_rows(d.by_rows, d.layout, d.rows, d.cols), by_cols(d.by_cols, d.layout, d.cols, d.rows) {}
  Output by_rows, by_cols;
};

constexpr std::uint32_t kAmax = std::bit_cast<std::uint32_t>(3.5f);
constexpr std::int32_t kPrescale = -3;
constexpr std::uint64_t kStep = 12345;

void run(const ops::Impl<QuantizeDesc, ops::QuantizeArgs>& impl, const QuantizeDesc& desc, const HostTensor& x,
         Outputs& out, const runtime::DeviceInfo& device) {
  run_impl(impl, desc,
           {.x = x.view(),
            .by_rows = out.by_rows.view(),
            .by_cols = out.by_cols.view(),
            .amax = &kAmax,
            .prescale = &kPrescale,
            .step = &kStep,
            .seed = 11,
            .tensor = 3},
           device);
}

void expect_same(const Output& got, const Output& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.codes, want.codes)) << what << " codes";
  EXPECT_TRUE(same_bits(got.scales, want.scales)) << what << " scales";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got.tensor_scale), std::bit_cast<std::uint32_t>(want.tensor_scale)) << what;
}

void expect_definition(const QuantizeDesc& desc, const HostTensor& x) {
  const auto impls = quantize_impls();
  Outputs want(desc);
  run(impls.back(), desc, x, want, devices_of_every_isa()[0]);
  for (const runtime::DeviceInfo& device : devices_of_every_isa()) {
    Outputs got(desc);
    run(impls.front(), desc, x, got, device);
    const std::string what = desc.to_string() + " on " + std::string(isa_level_name(isa_level(device.cpu)));
    expect_same(got.by_rows, want.by_rows, what + ", rows");
    expect_same(got.by_cols, want.by_cols, what + ", columns");
  }
}

// Blocks of many magnitudes, some zero.
HostTensor values(DType dtype, std::int64_t rows, std::int64_t cols) {
  HostTensor x(dtype, rows, cols, 3);
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
HostTensor with_specials(HostTensor x) {
  const double specials[] = {NAN, -INFINITY, static_cast<double>(kMaxF32), 0x1p-149, -0x1p-133, 0x1p-126, -NAN};
  std::int64_t i = 0;
  for (const double special : specials) {
    const std::int64_t at = ++i * 37 * 41 % (x.rows() * x.cols());
    x.set(at / x.cols(), at % x.cols(), special);
  }
  return x;
}

TEST(QuantizeVector, AnyShapeHasTheBitsOfTheDefinition) {
  constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {{1, 1},    {3, 15},   {16, 16},  {5, 17},
                                                               {33, 33},  {2, 127},  {7, 128},  {130, 9},
                                                               {129, 40}, {3, 1000}, {576, 10}, {35, 712}};
  for (const auto& [rows, cols] : kShapes) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const HostTensor plain = values(dtype, rows, cols);
      for (const std::string_view name : kNames) {
        QuantFormat drawn = named(name);
        drawn.rounding = Rounding::kStochastic;
        for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
          QuantizeDesc desc{.rows = rows, .cols = cols, .dtype = dtype, .by_rows = named(name), .by_cols = drawn};
          desc.layout = layout;
          expect_definition(desc, plain);
          std::swap(desc.by_rows, desc.by_cols);
          expect_definition(desc, with_specials(plain));
        }
      }
    }
  }
}

TEST(QuantizeVector, EveryChoiceHasTheBitsOfTheDefinition) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const HostTensor plain = values(dtype, 48, 576);
    for (const HostTensor& x : {plain, with_specials(plain)}) {
      for (const std::string_view name : kNames) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
          QuantFormat f = named(name);
          f.rounding = rounding;
          const QuantFormat other = with_other_choices(f);
          QuantFormat fixed = f, seeded = other;
          fixed.hadamard = Hadamard::kFixedSigns;
          seeded.hadamard = Hadamard::kSeededSigns;
          const QuantizeDesc both{.rows = 48, .cols = 576, .dtype = dtype, .by_rows = f, .by_cols = f};
          QuantizeDesc desc = both;
          desc.by_rows = desc.by_cols = other;
          expect_definition(desc, x);
          desc.by_rows = fixed;
          desc.by_cols = seeded;
          expect_definition(desc, x);
          desc.has_prescale = true;
          expect_definition(desc, x);
          desc = both;
          desc.has_amax = true;
          expect_definition(desc, x);
          desc.has_prescale = true;
          expect_definition(desc, x);
        }
      }
    }
  }
}

// Every bf16 that is finite, in blocks whose first element sets the scale; the scales visit every mantissa of an amax.
TEST(QuantizeVector, EveryBf16UnderManyScales) {
  constexpr std::int64_t kCols = 2048;
  for (int scale = 0; scale < 24; ++scale) {
    HostTensor x(DType::kBF16, 32, kCols);
    auto* bits = reinterpret_cast<std::uint16_t*>(x.view().data);
    for (std::int64_t i = 0; i < 32 * kCols; ++i) {
      // Large and small beside each other only in part of the runs: a block has one scale.
      const auto pattern = static_cast<std::uint16_t>(scale % 2 == 0 ? i : i * 40503);
      bits[i] = (pattern & 0x7F80u) == 0x7F80u ? std::uint16_t{0} : pattern;
      if (i % 16 == 0) bits[i] = static_cast<std::uint16_t>(std::min(bits[i] + 0x0100 + scale * 5, 0x7F7F));
    }
    for (const std::string_view name : {"mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4", "fp8_vec128"}) {
      for (const QuantFormat& f : {named(name), with_other_choices(named(name))})
        expect_definition({.rows = 32, .cols = kCols, .dtype = DType::kBF16, .by_rows = f, .by_cols = {}}, x);
    }
  }
}

// The places where NVFP4's code changes, and the two f32 beside each, under tensor scales that leave no product short.
TEST(QuantizeVector, NeighboursOfEveryTie) {
  constexpr float kTies[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  for (int trial = 0; trial < 64; ++trial) {
    HostTensor x(DType::kF32, 126, 48);
    x.fill(0.0);
    const float g = static_cast<float>(std::exp2(8.0 * normal_at(3, 1, static_cast<std::uint64_t>(trial))));
    x.set(0, 0, static_cast<double>(g) * 2688.0);
    const float tensor_scale = static_cast<float>(x.at(0, 0)) / 2688.0f;
    for (std::int64_t r = 0; r < 126; ++r) {
      const double divisor =
          static_cast<double>(decode<E4m3>(static_cast<std::uint8_t>(r + 1))) * static_cast<double>(tensor_scale);
      if (r > 0) x.set(r, 0, divisor * 6.0);
      if (r > 0) x.set(r, 16, divisor * 6.0);
      for (std::int64_t i = 0; i < 28; ++i) {
        const auto near = static_cast<float>(static_cast<double>(kTies[i / 4]) * divisor);
        const auto moved =
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) + static_cast<std::uint32_t>(i % 4) - 1u);
        x.set(r, i < 15 ? 1 + i : 2 + i, static_cast<double>(i % 3 == 0 ? -moved : moved));
      }
    }
    expect_definition({.rows = 126, .cols = 48, .dtype = DType::kF32, .by_rows = named("nvfp4"), .by_cols = {}}, x);
  }
}

TEST(QuantizeVector, DoesNotDependOnThreads) {
  const HostTensor x = values(DType::kBF16, 200, 600);
  for (const std::string_view name : kNames) {
    QuantFormat f = named(name);
    f.rounding = Rounding::kStochastic;
    const QuantizeDesc desc{.rows = 200, .cols = 600, .by_rows = f, .by_cols = f};
    Outputs one(desc), three(desc);
    set_num_threads(1);
    run(quantize_impls().front(), desc, x, one, devices_of_every_isa()[0]);
    set_num_threads(3);
    run(quantize_impls().front(), desc, x, three, devices_of_every_isa()[0]);
    set_num_threads(0);
    expect_same(three.by_rows, one.by_rows, desc.to_string());
    expect_same(three.by_cols, one.by_cols, desc.to_string());
  }
}

TEST(QuantizeVector, LeavesToTheDefinitionWhatItSaysItDoes) {
  const auto refused = [](auto change) {
    QuantizeDesc desc{.rows = 32, .cols = 32, .by_rows = named("nvfp4"), .by_cols = {}};
    change(desc);
    std::vector<ops::RefusalRecord> records;
    const auto list = quantize_impls();
    return ops::choose(list, desc, devices_of_every_isa()[0], "quantize", &records).name == "cpu.definition";
  };
  EXPECT_FALSE(refused([](QuantizeDesc&) {}));
  EXPECT_TRUE(refused([](QuantizeDesc& d) { d.by_rows.square_blocks = true; }));
  EXPECT_TRUE(refused([](QuantizeDesc& d) { d.by_rows.four_over_six = true; }));
  EXPECT_TRUE(refused([](QuantizeDesc& d) { d.error_feedback = true; }));
}

// Every code under scales of its format. NaN is NaN, whatever its sign.
TEST(QuantizeVector, DequantizesAsTheDefinition) {
  for (const std::int64_t cols : {1, 17, 48, 257, 712}) {
    for (const std::string_view name : kNames) {
      for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
        Output q(named(name), layout, 130, cols);
        q.tensor_scale = 0.37f;
        auto* codes = q.codes.view().as<std::uint8_t>();
        for (std::size_t i = 0; i < q.codes.bytes().size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
        for (std::int64_t r = 0; r < q.scales.rows(); ++r) {
          for (std::int64_t c = 0; c < q.scales.cols(); ++c) {
            const std::int64_t at = r * q.scales.cols() + c;
            if (has_f32_scales(named(name).grid)) {
              q.scales.view().as<float>()[at] = 0.01f * static_cast<float>(at % 50 + 1);
            } else {
              q.scales.view().as<std::uint8_t>()[at] = static_cast<std::uint8_t>(at % (name == "nvfp4" ? 128 : 256));
            }
          }
        }
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          for (const bool with_tensor_scale : {false, true}) {
            ops::DequantizeDesc desc{.rows = 130, .cols = cols, .format = named(name), .layout = layout, .dtype = dtype};
            desc.with_tensor_scale = with_tensor_scale;
            HostTensor want(dtype, 130, cols, 8);
            run_impl(dequantize_impls().back(), desc, {q.view(), want.view()}, devices_of_every_isa()[0]);
            for (const runtime::DeviceInfo& device : devices_of_every_isa()) {
              HostTensor got(dtype, 130, cols, 8);
              run_impl(dequantize_impls().front(), desc, {q.view(), got.view()}, device);
              std::int64_t differ = 0;
              want.for_each([&](std::int64_t r, std::int64_t c) {
                const double a = got.at(r, c), b = want.at(r, c);
                differ +=
                    std::isnan(b) ? !std::isnan(a) : std::bit_cast<std::uint64_t>(a) != std::bit_cast<std::uint64_t>(b);
              });
              EXPECT_EQ(differ, 0) << desc.to_string();
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ida::cpu
