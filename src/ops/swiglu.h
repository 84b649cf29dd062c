// SwiGLU: y = silu(gate) * up, silu(z) = z / (1 + exp(-z)); gate and up sit side by side in gate_up. Arithmetic f32.
// Source: Shazeer 2020, "GLU Variants Improve Transformer".
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"

namespace ida::ops {

struct SwigluDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // intermediate size
  DType dtype = DType::kF32;
  std::string to_string() const;
};

struct SwigluForwardArgs {
  TensorView gate_up;             // [rows, 2 * cols]: gate | up
  TensorView y;                   // [rows, cols]
  std::uint32_t* amax = nullptr;  // [1], gets the largest magnitude in y (formats::Amax); null: not wanted
};

struct SwigluBackwardArgs {
  TensorView grad_y;              // [rows, cols]
  TensorView gate_up;             // [rows, 2 * cols]
  TensorView grad_gate_up;        // [rows, 2 * cols]; may be gate_up
  std::uint32_t* amax = nullptr;  // [1], gets the largest magnitude in grad_gate_up; null: not wanted
};

using SwigluForwardList = ImplList<SwigluDesc, SwigluForwardArgs>;
using SwigluBackwardList = ImplList<SwigluDesc, SwigluBackwardArgs>;

}  // namespace ida::ops
