// Quantised matrices and what they are made of, for tests that compare bits.
#pragma once
#include "formats/block_rules.h"
#include "op_test_support.h"
#include "ops/quantize.h"

namespace ida::cpu {

using formats::QuantFormat;
using formats::ScaleGrid;
using formats::ScaleLayout;

inline QuantFormat named(std::string_view name) { return *formats::format_of_name(name); }
inline constexpr std::string_view kNames[] = {
    "fp8_tensor",   "fp8_tensor_e5m2", "fp8_row",    "fp8_vec128", "fp8_vec128_e5m2",
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
inline HostTensor values(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0) {
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
inline void add_specials(HostTensor& x) {
  const double specials[] = {NAN, -INFINITY, static_cast<double>(formats::kMaxF32), 0x1p-149, -0x1p-133, 0x1p-126, -NAN};
  std::int64_t i = 0;
  for (const double special : specials) {
    const std::int64_t at = ++i * 37 * 41 % (x.rows() * x.cols());
    x.set(at / x.cols(), at % x.cols(), special);
  }
}

inline std::string first_difference(const HostTensor& got, const HostTensor& want) {
  const auto& a = got.bytes();
  const auto& b = want.bytes();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      return fmt::format("byte {} of {}: {:02x}, expected {:02x}", i, a.size(), static_cast<int>(a[i]),
                         static_cast<int>(b[i]));
  return "none";
}
inline void expect_same(const Result& got, const Result& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.codes, want.codes)) << what << " codes: " << first_difference(got.codes, want.codes);
  EXPECT_TRUE(same_bits(got.scales, want.scales)) << what << " scales: " << first_difference(got.scales, want.scales);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got.tensor_scale), std::bit_cast<std::uint32_t>(want.tensor_scale)) << what;
}

}  // namespace ida::cpu
