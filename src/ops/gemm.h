// C[m,n] = alpha * op(A) op(B) (+ C when accumulating) (+ bias[n]) (+ R[m,n], the residual stream).
// op(A) is [m,k]: A stored [m,k], or [k,m] when a_transposed. op(B) is [k,n]: B stored [k,n], or [n,k] when
// b_transposed. Products of bf16 operands are exact in f32; sums are f32 in an order that does not depend on the
// row's position in C, on m, or on the number of threads; all is added in f32 and rounded once to C's type.
#pragma once
#include <cstdint>
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/scale.h"

namespace ida::ops {

struct GemmDesc {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool has_bias = false;      // not together with accumulate
  bool has_residual = false;  // not together with accumulate
  DType a_dtype = DType::kF32;
  DType b_dtype = DType::kF32;
  DType c_dtype = DType::kF32;
  std::string to_string() const;
  bool operator==(const GemmDesc&) const = default;
};

struct GemmArgs {
  TensorView a;                  // [m, k] or [k, m]
  TensorView b;                  // [k, n] or [n, k]
  TensorView c;                  // [m, n]
  TensorView bias;               // [1, n], type of B; empty when there is none
  TensorView residual = {};      // [m, n], type of C; empty when there is none; not C
  const float* alpha = nullptr;  // in device memory; null: 1
  bool overwrite = false;        // an accumulating site's first product: C is not read
};

using GemmImplList = ImplList<GemmDesc, GemmArgs>;

}  // namespace ida::ops
