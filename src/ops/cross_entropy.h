// Cross-entropy of a chunk of logits against integer labels: nll = log sum exp(logits) - logits[label], in f32.
// Label kIgnoreLabel: nll 0, gradient 0. The gradient overwrites the logits:
// dlogits = (softmax - onehot(label)) * grad_scale, so no second [rows, vocab] buffer exists.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/scale.h"

namespace ida::ops {

inline constexpr std::int32_t kIgnoreLabel = -100;

struct CrossEntropyDesc {
  std::int64_t rows = 0;
  std::int64_t vocab_size = 0;
  bool with_gradient = false;
  DType dtype = DType::kF32;
  std::string to_string() const;
};

struct CrossEntropyArgs {
  TensorView logits;                  // [rows, vocab_size]; overwritten by the gradient when with_gradient
  TensorView labels;                  // [1, rows] i32
  TensorView nll;                     // [1, rows] f32
  const float* grad_scale = nullptr;  // in device memory; null: 1
};

using CrossEntropyList = ImplList<CrossEntropyDesc, CrossEntropyArgs>;

}  // namespace ida::ops
