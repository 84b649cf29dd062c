// Non-owning views of tensors in device memory (host memory on the CPU backend).
//
// A view is a matrix of `rows` rows of `cols` contiguous elements, `row_stride` elements apart, so that one
// head-group of a fused [N_tok, q|k|v] buffer is a view without a copy. Higher ranks are folded into rows by
// the op that reads them and named in the op's Desc.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ida {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  // elements between the starts of consecutive rows; >= cols

  bool empty() const { return data == nullptr; }
  bool contiguous() const { return row_stride == cols || rows <= 1; }
  std::int64_t numel() const { return rows * cols; }
  std::int64_t size_bytes() const { return numel() * dtype_size_bytes(dtype); }

  template <typename T>
  T* as() const {
    assert(static_cast<std::int64_t>(sizeof(T)) == dtype_size_bytes(dtype));
    return static_cast<T*>(data);
  }

  // Rows [begin, begin + count).
  TensorView row_slice(std::int64_t begin, std::int64_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= rows);
    return {static_cast<std::byte*>(data) + begin * row_stride * dtype_size_bytes(dtype), dtype, count, cols, row_stride};
  }
  // Columns [begin, begin + count) of every row.
  TensorView col_slice(std::int64_t begin, std::int64_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= cols);
    return {static_cast<std::byte*>(data) + begin * dtype_size_bytes(dtype), dtype, rows, count, row_stride};
  }
};

inline TensorView matrix_view(void* data, DType dtype, std::int64_t rows, std::int64_t cols) {
  return {data, dtype, rows, cols, cols};
}
inline TensorView vector_view(void* data, DType dtype, std::int64_t size) { return {data, dtype, 1, size, size}; }

}  // namespace ida
