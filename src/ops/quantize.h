// Quantises a matrix along its rows, along its columns, or both in one read, and widens it again.
//
// x (+ carry) is taken times 2^prescale, cut into groups as the format's grid says, transformed where the format asks for a
// Hadamard transform, and written as codes and scales: value = element * scale * tensor_scale. `by_cols` is the
// quantisation of x^T, stored [cols, rows], so that either result has the dimension a product sums over contiguous.
// Where cols (rows for by_cols) is no multiple of the block, the last block is shorter. Rules: formats/block_rules.h.
// Error feedback: u = x + carry is quantised in place of x, and carry becomes u - value.
#pragma once
#include <string>

#include "base/tensor.h"
#include "formats/quant_format.h"
#include "formats/scale_layout.h"
#include "ops/impl_list.h"

namespace ida::ops {

struct QuantizeDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kBF16;         // of x: f32 or bf16
  formats::QuantFormat by_rows = {};  // grid kNone: not wanted
  formats::QuantFormat by_cols = {};
  formats::ScaleLayout layout = formats::ScaleLayout::kRows;
  bool has_amax = false;  // the tensor's amax is given by whoever made x; not where that is of transformed values
  bool has_prescale = false;
  bool error_feedback = false;  // by_rows alone
  std::string to_string() const;
  bool operator==(const QuantizeDesc&) const = default;
};

// A quantised [rows, k] matrix in device memory.
struct QuantizedView {
  TensorView codes;               // [rows, code_row_bytes] u8; two e2m1 a byte, the first in the low half
  TensorView scales;              // quantized_scales_shape, f32 or u8
  float* tensor_scale = nullptr;  // [1]: NVFP4's tensor scale times the inverse of the prescale; 1 for other formats
};

// Why no implementation can quantise as asked: a combination that has no meaning, or a Hadamard transform whose dimension
// is no multiple of 16.
Refusal refuse_choices(const QuantizeDesc& desc);

struct QuantizeArgs {
  TensorView x;                            // [rows, cols]
  QuantizedView by_rows;                   // of [rows, cols]
  QuantizedView by_cols;                   // of [cols, rows]
  const std::uint32_t* amax = nullptr;     // [1], formats::Amax of x before the prescale
  const std::int32_t* prescale = nullptr;  // [1], an exponent in [-126, 126]
  TensorView carry = {};                   // [rows, cols] f32: added to x, then what quantisation lost
  const std::uint64_t* step = nullptr;     // [1], of the random key; in device memory, so a graph can be replayed
  std::uint64_t seed = 0;                  // of rounding and of seeded signs
  std::uint64_t tensor = 0;                // of the random key: 2 * tensor for rows, 2 * tensor + 1 for columns
};

// y = element * scale, times tensor_scale where asked for. bf16 holds element * scale of MX and NVFP4 exactly, except below
// 2^-126 (ue8m0 bytes under 3 for e4m3, under 10 for e5m2), and is rounded to nearest even otherwise.
struct DequantizeDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  formats::QuantFormat format = {};
  formats::ScaleLayout layout = formats::ScaleLayout::kRows;
  DType dtype = DType::kBF16;  // of y
  bool with_tensor_scale = true;
  std::string to_string() const;
};
struct DequantizeArgs {
  QuantizedView x;
  TensorView y;  // [rows, cols]
};

using QuantizeList = ImplList<QuantizeDesc, QuantizeArgs>;
using DequantizeList = ImplList<DequantizeDesc, DequantizeArgs>;

// Type and shape of the scales of a quantised [rows, k] matrix. In the layout of products: MX and NVFP4 [1, tiled bytes];
// 1 x 128 [k / 128, rows]; 128 x 128 [rows / 128, k / 128 rounded up to 4]; one a tensor or row as in kRows.
struct ScalesShape {
  DType dtype = DType::kU8;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
ScalesShape quantized_scales_shape(const formats::QuantFormat& format, formats::ScaleLayout layout, std::int64_t rows,
                                   std::int64_t k);

}  // namespace ida::ops
