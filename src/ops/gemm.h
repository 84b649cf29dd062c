// C[m,n] = alpha * op(A) op(B) (+ C when accumulating) (+ bias[n]) (+ R[m,n], the residual stream).
// op(A) is [m,k]: A stored [m,k], or [k,m] when a_transposed. op(B) is [k,n]: B stored [k,n], or [n,k] when
// b_transposed. Products of bf16 operands are exact in f32; sums are f32 in an order that does not depend on the
// row's position in C, on m, or on the number of threads; all is added in f32 and rounded once to C's type.
//
// Quantised operands (formats/quant_format.h): both or neither, A stored [m,k] and B [n,k] with b_transposed, codes and
// scales as ops::quantize writes them, scales laid out for products; values are element * scale * tensor_scale.
#pragma once
#include <cstdint>
#include <string>

#include "base/tensor.h"
#include "formats/quant_format.h"
#include "ops/impl_list.h"
#include "ops/quantize.h"
#include "ops/scale.h"

namespace ida::ops {

struct GemmDesc {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool has_bias = false;        // not together with accumulate
  bool has_residual = false;    // not together with accumulate
  DType a_dtype = DType::kF32;  // kU8 where quantised
  DType b_dtype = DType::kF32;
  DType c_dtype = DType::kF32;
  formats::QuantFormat a_format = {};  // grid kNone: not quantised
  formats::QuantFormat b_format = {};
  bool fast_accumulation = false;  // FP8 on Hopper: sums may keep the tensor core's 14 bits between additions
  bool quantized() const {         // an operand at least
    return a_format.grid != formats::ScaleGrid::kNone || b_format.grid != formats::ScaleGrid::kNone;
  }
  std::string to_string() const;
  bool operator==(const GemmDesc&) const = default;
};

struct GemmArgs {
  TensorView a;                    // [m, k] or [k, m]
  TensorView b;                    // [k, n] or [n, k]
  TensorView c;                    // [m, n]
  TensorView bias;                 // [1, n], type of B, bf16 where that is quantised; empty when there is none
  TensorView residual = {};        // [m, n], type of C; empty when there is none; not C
  const float* alpha = nullptr;    // in device memory; null: 1
  bool overwrite = false;          // an accumulating site's first product: C is not read
  QuantizedView a_quantized = {};  // of [m, k], instead of a
  QuantizedView b_quantized = {};  // of [n, k], instead of b
};

// What no implementation of quantised products takes: operands that are not both quantised, or not as they must lie.
Refusal refuse_quantized_operands(const GemmDesc& desc);

using GemmImplList = ImplList<GemmDesc, GemmArgs>;

}  // namespace ida::ops
