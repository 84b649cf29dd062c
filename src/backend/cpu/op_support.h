// What the ops of this room share: refusals, the split of matrices into parallel pieces, parts of a workspace.
#pragma once
#include <cassert>

#include "base/parallel.h"
#include "base/tensor.h"
#include "ops/impl_list.h"
#include "ops/tensor_ranges.h"

namespace ida::cpu {

inline bool is_float_dtype(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

// `supports` of ops that take any shape in f32 or bf16.
template <typename Desc>
ops::Refusal any_shape(const Desc& desc, const runtime::DeviceInfo&) {
  if (is_float_dtype(desc.dtype)) return ops::kAccepted;
  return {ops::RefusalKind::kDType, "takes f32 and bf16"};
}

// Work of one parallel piece, in elements: long enough to hide the cost of handing it to a thread.
inline constexpr std::int64_t kPieceElements = 16384;

// Rows of `cols` elements that make up a piece.
inline std::int64_t rows_per_piece(std::int64_t cols) {
  return cols >= kPieceElements ? 1 : kPieceElements / (cols > 0 ? cols : 1);
}

// Calls body(row, begin, size) over pieces of the rows of a [rows, cols] matrix; long rows are cut.
template <typename Body>
void for_row_pieces(std::int64_t rows, std::int64_t cols, Body&& body) {
  if (cols == 0) return;
  const std::int64_t pieces = (cols + kPieceElements - 1) / kPieceElements;
  parallel_for(rows * pieces, rows_per_piece(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i % pieces * kPieceElements;
      body(i / pieces, begin, cols - begin < kPieceElements ? cols - begin : kPieceElements);
    }
  });
}

inline const ops::TensorRange* ranges_of(const TensorView& view) { return static_cast<const ops::TensorRange*>(view.data); }

// Address of element (row, col) of a view of any type.
inline void* element_address(const TensorView& view, std::int64_t row, std::int64_t col) {
  return static_cast<std::byte*>(view.data) + (row * view.row_stride + col) * dtype_size_bytes(view.dtype);
}

// Hands out consecutive parts of a workspace, each 64-byte aligned.
class WorkspaceParts {
 public:
  explicit WorkspaceParts(std::span<std::byte> workspace) : rest_(workspace) {}
  template <typename T>
  T* take(std::int64_t count) {
    const std::size_t size = static_cast<std::size_t>(aligned(count * static_cast<std::int64_t>(sizeof(T))));
    assert(size <= rest_.size());
    T* part = reinterpret_cast<T*>(rest_.data());
    rest_ = rest_.subspan(size);
    return part;
  }
  // Bytes that a part of `size` bytes occupies.
  static std::int64_t aligned(std::int64_t size) { return (size + 63) / 64 * 64; }

 private:
  std::span<std::byte> rest_;
};

}  // namespace ida::cpu
