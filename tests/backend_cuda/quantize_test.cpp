// Quantise and dequantise on the GPU against the CPU's definition: the same bits, over every format and choice, odd shapes
// and values that are not ordinary. Results start as NaN.
#include "formats/block_rules.h"
#include "twin.h"

namespace ida::cuda {
namespace {

using formats::Hadamard;
using formats::QuantFormat;
using formats::Rounding;
using formats::ScaleGrid;
using formats::ScaleLayout;

constexpr std::string_view kNames[] = {"fp8_tensor", "fp8_tensor_e5m2", "fp8_row",      "fp8_row_e5m2",
                                       "fp8_vec128", "fp8_vec128_e5m2", "fp8_block128", "fp8_block128_e5m2",
                                       "mxfp8",      "mxfp8_e5m2",      "mxfp4",        "nvfp4"};

struct Shape {
  std::int64_t rows, cols, padding;
};

// Values over many binades, blocks of zeros; with `specials` a few that are not finite, subnormal, or the largest.
std::vector<float> values(const Shape& s, bool specials) {
  std::vector<float> v(static_cast<std::size_t>(s.rows * s.cols));
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / s.cols;
    const auto col = static_cast<std::int64_t>(i) % s.cols;
    const std::int64_t block = row / 16 * 7 + col / 16 * 3;
    v[i] = normal_at(1, 7, i);
    if (block % 5 == 1) v[i] *= 0x1p-20f;
    if (block % 11 == 2) v[i] *= 1e4f;
    if (block % 17 == 4) v[i] = 0.0f;
    if ((row * 31 + col) % 97 == 0) v[i] = -0.0f;
  }
  if (!specials) return v;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float list[] = {formats::kNanF32, -kInf, formats::kMaxF32, 0x1p-149f, -0x1p-133f, 0x1p-126f, -formats::kNanF32};
  for (std::size_t i = 0; i < std::size(list); ++i) v[(i + 1) * 1517 % v.size()] = list[i];
  return v;
}

// Bits, but any NaN for a NaN: arithmetic makes other ones on either side.
bool same_values(Twin& t) {
  const std::vector<float> want = t.cpu_values();
  const std::vector<float> got = t.gpu_values();
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) ? !std::isnan(got[i])
                            : std::bit_cast<std::uint32_t>(want[i]) != std::bit_cast<std::uint32_t>(got[i]))
      return false;
  }
  return true;
}

// The parts of one direction's result on both sides.
struct TwinResult {
  std::unique_ptr<Twin> codes, scales, tensor_scale;
  ops::QuantizedView view(TensorView Twin::*side) const {
    if (!codes) return {};
    return {.codes = *codes.*side, .scales = *scales.*side, .tensor_scale = (*tensor_scale.*side).template as<float>()};
  }
  void expect_same(const std::string& what) const {
    if (!codes) return;
    EXPECT_TRUE(codes->same_bits()) << what << ": codes";
    EXPECT_TRUE(scales->same_bits()) << what << ": scales";
    EXPECT_TRUE(same_values(*tensor_scale)) << what << ": the tensor's scale";
  }
};

class CudaQuantizeTest : public CudaTest {
 protected:
  TwinResult result(const QuantFormat& f, ScaleLayout layout, std::int64_t rows, std::int64_t k) {
    TwinResult r;
    if (f.grid == ScaleGrid::kNone) return r;
    const ops::ScalesShape s = ops::quantized_scales_shape(f, layout, rows, k);
    r.codes = std::make_unique<Twin>(*cpu_, *gpu_, DType::kU8, rows, formats::code_row_bytes(f, k));
    r.scales = std::make_unique<Twin>(*cpu_, *gpu_, s.dtype, s.rows, s.cols);
    r.tensor_scale = std::make_unique<Twin>(*cpu_, *gpu_, DType::kF32, 1, 1);
    return r;
  }

  void expect_definition(const ops::QuantizeDesc& desc, Twin& x) {
    if (ops::refuse_choices(desc)) return;
    const runtime::Arena::Scope cpu_scope(cpu_->arena());
    const runtime::Arena::Scope gpu_scope(gpu_->arena());
    const TwinResult by_rows = result(desc.by_rows, desc.layout, desc.rows, desc.cols);
    const TwinResult by_cols = result(desc.by_cols, desc.layout, desc.cols, desc.rows);
    Twin amax = twin(DType::kF32, 1, 1).fill({3.5f});
    Twin prescale = twin(DType::kI32, 1, 1).fill_ints({-3});
    Twin step = twin(DType::kI32, 1, 2).fill_ints({12345, 0});
    Twin carry = twin(DType::kF32, desc.rows, desc.cols).random(5, 1e-3f);
    const auto run = [&](ops::Context& context, TensorView Twin::*side) {
      ops::quantize(context, desc,
                    {.x = x.*side,
                     .by_rows = by_rows.view(side),
                     .by_cols = by_cols.view(side),
                     .amax = static_cast<const std::uint32_t*>((amax.*side).data),
                     .prescale = static_cast<const std::int32_t*>((prescale.*side).data),
                     .carry = carry.*side,
                     .step = static_cast<const std::uint64_t*>((step.*side).data),
                     .seed = 11,
                     .tensor = 3});
    };
    run(cpu(), &Twin::cpu);
    run(gpu(), &Twin::gpu);
    by_rows.expect_same(desc.to_string() + " by rows");
    by_cols.expect_same(desc.to_string() + " by columns");
    EXPECT_TRUE(same_values(carry)) << desc.to_string();
  }

  void expect_every_choice(const Shape& s, DType dtype, bool specials) {
    const runtime::Arena::Scope cpu_scope(cpu_->arena());
    const runtime::Arena::Scope gpu_scope(gpu_->arena());
    Twin x = twin(dtype, s.rows, s.cols, s.padding).fill(values(s, specials));
    for (const std::string_view name : kNames) {
      const QuantFormat plain = *formats::format_of_name(name);
      QuantFormat changed = plain;
      changed.scale_rule = formats::ScaleRule::kFloor;
      changed.two_level = false;
      changed.power_of_two_scale = true;
      for (const QuantFormat& f : {plain, changed}) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
          QuantFormat g = f;
          g.rounding = rounding;
          QuantFormat transformed = g;
          transformed.hadamard = rounding == Rounding::kNearest ? Hadamard::kFixedSigns : Hadamard::kSeededSigns;
          QuantFormat square = g;
          square.square_blocks = true;
          QuantFormat four = g;
          four.four_over_six = true;
          ops::QuantizeDesc desc{.rows = s.rows, .cols = s.cols, .dtype = dtype};
          const auto expect = [&](const QuantFormat& by_rows, const QuantFormat& by_cols) {
            desc.by_rows = by_rows;
            desc.by_cols = by_cols;
            expect_definition(desc, x);
          };
          for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
            desc.layout = layout;
            expect(g, {});
            expect({}, g);
            expect(g, g);
          }
          expect(g, transformed);
          expect(transformed, transformed);
          expect(square, square);
          expect(four, four);
          desc.has_prescale = true;
          expect(g, g);
          desc.has_amax = true;
          expect(g, g);
          desc.has_amax = false;
          desc.error_feedback = true;
          expect(g, {});
        }
      }
    }
  }
};

TEST_F(CudaQuantizeTest, Tiles) {
  for (const Shape& s : {Shape{128, 256, 0}, {384, 128, 8}, {160, 576, 0}}) {
    expect_every_choice(s, DType::kBF16, false);
    expect_every_choice(s, DType::kBF16, true);
  }
}

TEST_F(CudaQuantizeTest, OddShapes) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Shape& s : {Shape{1, 16, 0}, {2, 48, 3}, {127, 32, 0}, {129, 144, 1}, {33, 712, 0}, {5, 257, 0}})
      expect_every_choice(s, dtype, s.rows == 129);
  }
  expect_every_choice({2, 50257, 0}, DType::kBF16, true);
}

// Many tiles, so that blocks run beside and after each other.
TEST_F(CudaQuantizeTest, ManyTiles) {
  const Shape s{1024, 2048, 0};
  Twin x = twin(DType::kBF16, s.rows, s.cols).fill(values(s, false));
  for (const std::string_view name : kNames) {
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      QuantFormat f = *formats::format_of_name(name);
      f.rounding = rounding;
      expect_definition({.rows = s.rows, .cols = s.cols, .by_rows = f, .by_cols = f, .layout = ScaleLayout::kProduct}, x);
    }
  }
}

TEST_F(CudaQuantizeTest, Dequantize) {
  for (const Shape& s : {Shape{129, 48, 0}, {130, 57, 0}, {128, 256, 8}, {1000, 712, 0}}) {
    for (const std::string_view name : kNames) {
      for (const ScaleLayout layout : {ScaleLayout::kRows, ScaleLayout::kProduct}) {
        const runtime::Arena::Scope cpu_scope(cpu_->arena());
        const runtime::Arena::Scope gpu_scope(gpu_->arena());
        const QuantFormat f = *formats::format_of_name(name);
        Twin x = twin(DType::kF32, s.rows, s.cols).fill(values(s, false));
        const TwinResult quantized = result(f, layout, s.rows, s.cols);
        const ops::QuantizeDesc quantize{
            .rows = s.rows, .cols = s.cols, .dtype = DType::kF32, .by_rows = f, .layout = layout};
        ops::quantize(cpu(), quantize, {.x = x.cpu, .by_rows = quantized.view(&Twin::cpu), .by_cols = {}});
        ops::quantize(gpu(), quantize, {.x = x.gpu, .by_rows = quantized.view(&Twin::gpu), .by_cols = {}});
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          Twin y = twin(dtype, s.rows, s.cols, s.padding);
          const ops::DequantizeDesc desc{.rows = s.rows, .cols = s.cols, .format = f, .layout = layout, .dtype = dtype};
          ops::dequantize(cpu(), desc, {quantized.view(&Twin::cpu), y.cpu});
          ops::dequantize(gpu(), desc, {quantized.view(&Twin::gpu), y.gpu});
          EXPECT_TRUE(y.same_bits()) << desc.to_string();
        }
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda
