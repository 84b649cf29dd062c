// Rows of views and the two element types, for kernel sources: like TensorView's members, but with internal linkage.
#pragma once
#include "base/tensor.h"
#include "formats/bf16.h"

namespace {

template <typename T>
inline T* row_of(const ida::TensorView& view, std::int64_t row) {
  return static_cast<T*>(view.data) + row * view.row_stride;
}

// Calls body(T{}) for the element type f32 or bf16 named by `dtype`.
template <typename Body>
inline void with_element_type(ida::DType dtype, Body&& body) {
  if (dtype == ida::DType::kBF16) {
    body(ida::bf16{});
  } else {
    body(float{});
  }
}

}  // namespace
