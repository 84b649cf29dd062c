// Rotary position embedding, half-split form: for i < d/2, (x_i, x_{i+d/2}) is rotated by the angle of the row's
// position: y_i = x_i cos - x_{i+d/2} sin; y_{i+d/2} = x_{i+d/2} cos + x_i sin. Only the first d = rotary_dim elements
// of a head are rotated. Backward is the inverse rotation of the gradient. In place; tables and arithmetic f32.
// Source: Su et al. 2021; transformers modeling_rope_utils.py.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"

namespace ida::ops {

enum class RopeDirection : std::uint8_t { kForward, kInverse };

struct RopeDesc {
  std::int64_t rows = 0;       // tokens
  std::int64_t num_heads = 0;  // heads side by side in a row of x
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // even, <= head_dim
  RopeDirection direction = RopeDirection::kForward;
  DType dtype = DType::kF32;
  std::string to_string() const;
};

struct RopeArgs {
  TensorView x;          // [rows, num_heads * head_dim], rotated in place
  TensorView positions;  // [1, rows] i32
  TensorView cos;        // [max_position, rotary_dim / 2] f32
  TensorView sin;        // [max_position, rotary_dim / 2] f32
};

using RopeList = ImplList<RopeDesc, RopeArgs>;

}  // namespace ida::ops
