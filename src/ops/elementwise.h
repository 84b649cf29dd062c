// Small ops over whole tensors: y = a + b (f32 sum, one rounding), type conversion, bias gradient, f64 sum of squares.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/scale.h"

namespace ida::ops {

struct AddDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kF32;
  std::string to_string() const;
};
struct AddArgs {
  TensorView a, b, y;  // [rows, cols]; y may be a or b
};

// y = round(x) to y's type; or y += x when `accumulate` (y f32).
struct ConvertDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;
  bool accumulate = false;
  std::string to_string() const;
};
struct ConvertArgs {
  TensorView x, y;
};

// grad_bias[c] += scale * sum over rows of grad_y[., c], rows in ascending order within fixed blocks.
struct BiasGradDesc {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kF32;
  std::string to_string() const;
};
struct BiasGradArgs {
  TensorView grad_y;             // [rows, cols]
  TensorView grad_bias;          // [1, cols] f32
  const float* scale = nullptr;  // in device memory; null: 1
};

// result[0] = sum of x^2 in f64: fixed blocks of 4096 elements, each in order, block sums added in order.
struct SumSquaresDesc {
  std::int64_t size = 0;
  std::string to_string() const;
};
struct SumSquaresArgs {
  TensorView x;       // [1, size] f32
  TensorView result;  // [1, 1] f64
};

using AddList = ImplList<AddDesc, AddArgs>;
using ConvertList = ImplList<ConvertDesc, ConvertArgs>;
using BiasGradList = ImplList<BiasGradDesc, BiasGradArgs>;
using SumSquaresList = ImplList<SumSquaresDesc, SumSquaresArgs>;

}  // namespace ida::ops
