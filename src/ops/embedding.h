// Embedding lookup y[i] = table[ids[i]] and its gradient grad_table[ids[i]] += scale * grad_y[i] (f32, rows summed in
// ascending i whatever the thread count). Ids are checked against the table's rows by the caller before launch.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/scale.h"

namespace ida::ops {

struct EmbeddingDesc {
  std::int64_t rows = 0;  // tokens
  std::int64_t cols = 0;  // hidden size
  std::int64_t vocab_size = 0;
  DType dtype = DType::kF32;  // of table, y and grad_y
  std::string to_string() const;
};

struct EmbeddingForwardArgs {
  TensorView ids;    // [1, rows] i32
  TensorView table;  // [vocab_size, cols]
  TensorView y;      // [rows, cols]
};

struct EmbeddingBackwardArgs {
  TensorView ids;
  TensorView grad_y;             // [rows, cols]
  TensorView grad_table;         // [vocab_size, cols] f32, accumulated
  const float* scale = nullptr;  // in device memory; null: 1
};

using EmbeddingForwardList = ImplList<EmbeddingDesc, EmbeddingForwardArgs>;
using EmbeddingBackwardList = ImplList<EmbeddingDesc, EmbeddingBackwardArgs>;

}  // namespace ida::ops
