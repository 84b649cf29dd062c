// One optimizer step over the tensors of flat buffers, in one pass: reads gradient and state, writes master and weights.
// What lies between tensors is left alone.
// g = grad * grad_scale (clipping). Decoupled decay first: p *= 1 - lr * weight_decay.
// AdamW (Loshchilov and Hutter 2019): m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
// Lion (Chen et al. 2023): p -= lr * sign(b1 m + (1-b1) g), sign(0) = 0; then m = b2 m + (1-b2) g.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/tensor_ranges.h"

namespace ida::ops {

enum class OptimizerKind : std::uint8_t { kAdamW, kLion };

// What changes from step to step, read from device memory so that a captured graph can be replayed.
struct OptimizerScalars {
  float lr = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float bias_correction1 = 1.0f;  // 1 - beta1^t
  float bias_correction2 = 1.0f;  // 1 - beta2^t
  float grad_scale = 1.0f;
  float weight_decay = 0.0f;  // multiplied by lr inside; ignored where a tensor's range says no decay
};

struct OptimizerDesc {
  OptimizerKind kind = OptimizerKind::kAdamW;
  std::int64_t size = 0;  // of each flat buffer
  std::int64_t num_tensors = 0;
  std::int64_t num_blocks = 0;  // of all tensors
  DType weight_dtype = DType::kF32;
  DType state_dtype = DType::kF32;  // of m and v: f32 or bf16
  std::string to_string() const;
};

struct OptimizerArgs {
  TensorView scalars;  // [1, 8] f32: OptimizerScalars
  TensorView ranges;   // [num_tensors, 4] i64: TensorRange
  TensorView grad;     // [1, size] f32
  TensorView master;   // [1, size] f32
  TensorView m;        // [1, size]
  TensorView v;        // [1, size]; empty for Lion
  TensorView weight;   // [1, size], the rounded master; the same memory as master when f32
};

using OptimizerList = ImplList<OptimizerDesc, OptimizerArgs>;

}  // namespace ida::ops
