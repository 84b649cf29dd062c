// A micro-batch as one piece of memory, laid out alike on the host and on the device, so that one copy moves it.
#pragma once
#include <cstdint>

#include "model/decoder.h"

namespace ida::train {

struct BatchLayout {
  std::int64_t labels = 0;  // offsets in bytes; tokens come first
  std::int64_t positions = 0;
  std::int64_t segments = 0;
  std::int64_t loss_scale = 0;
  std::int64_t size_bytes = 0;

  static BatchLayout of(std::int64_t tokens) {
    constexpr std::int64_t kAlignmentBytes = 256;
    const auto after = [](std::int64_t offset, std::int64_t elems) {
      return (offset + elems * std::int64_t{sizeof(std::int32_t)} + kAlignmentBytes - 1) / kAlignmentBytes *
             kAlignmentBytes;
    };
    BatchLayout layout;
    layout.labels = after(0, tokens);
    layout.positions = after(layout.labels, tokens);
    layout.segments = after(layout.positions, tokens);
    layout.loss_scale = after(layout.segments, 4 * tokens);
    layout.size_bytes = after(layout.loss_scale, 2);
    return layout;
  }
};

// The tensors of a micro-batch of `tokens` tokens at `memory`, which has the size of its layout.
inline model::BatchViews batch_views(void* memory, std::int64_t tokens) {
  const BatchLayout at = BatchLayout::of(tokens);
  const auto view = [&](std::int64_t offset, DType dtype, std::int64_t rows, std::int64_t cols) {
    return matrix_view(static_cast<std::byte*>(memory) + offset, dtype, rows, cols);
  };
  return {.tokens = view(0, DType::kI32, 1, tokens),
          .labels = view(at.labels, DType::kI32, 1, tokens),
          .positions = view(at.positions, DType::kI32, 1, tokens),
          .segments = view(at.segments, DType::kI32, tokens, 4),
          .loss_scale = view(at.loss_scale, DType::kF32, 1, 2)};
}

}  // namespace ida::train
