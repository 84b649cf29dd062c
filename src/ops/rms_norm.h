// RMSNorm over the last dimension: y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps).
// Source: Zhang and Sennrich 2019; transformers LlamaRMSNorm. Arithmetic f32, one rounding at the output.
// `num_groups` groups of `cols` sit side by side in a row (q/k norm: one group a head, the same w for all).
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/scale.h"

namespace ida::ops {

struct RmsNormDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;        // elements normalised together
  std::int64_t num_groups = 1;  // x is [rows, num_groups * cols]
  float eps = 1e-6f;
  DType dtype = DType::kF32;  // of x, y, w and their gradients in memory (grad_w is f32)
  std::string to_string() const;
};

struct RmsNormForwardArgs {
  TensorView x;                   // [rows, num_groups * cols]
  TensorView w;                   // [1, cols]
  TensorView y;                   // [rows, num_groups * cols]; may be x
  TensorView rstd;                // [rows, num_groups] f32, saved for backward
  std::uint32_t* amax = nullptr;  // [1], gets the largest magnitude in y (formats::Amax); null: not wanted
};

// grad_x = rstd * (w*dy - xhat * mean(w*dy*xhat)); grad_w += grad_w_scale * sum over rows and groups of dy*xhat.
// With `add_to_grad_x` the result is added to grad_x in f32 and rounded once (the residual stream's gradient).
struct RmsNormBackwardArgs {
  TensorView grad_y;  // [rows, num_groups * cols]
  TensorView x;
  TensorView w;
  TensorView rstd;
  TensorView grad_x;                    // [rows, num_groups * cols]; may be grad_y
  TensorView grad_w;                    // [1, cols] f32, accumulated in a fixed order
  const float* grad_w_scale = nullptr;  // in device memory; null: 1
  bool add_to_grad_x = false;
  std::uint32_t* amax = nullptr;  // [1], gets the largest magnitude in grad_x; null: not wanted
};

using RmsNormForwardList = ImplList<RmsNormDesc, RmsNormForwardArgs>;
using RmsNormBackwardList = ImplList<RmsNormDesc, RmsNormBackwardArgs>;

}  // namespace ida::ops
