// A micro-batch's members lie beside each other, aligned, within one copy.
#include "train/batch_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace ida::train {
namespace {

// What the arena gives every tensor.
constexpr std::int64_t kAlignmentBytes = 256;

TEST(BatchLayout, MembersAreAlignedAndShareNoByte) {
  for (const std::int64_t tokens : {1, 2, 31, 32, 63, 64, 65, 127, 128, 129, 1000, 16384}) {
    SCOPED_TRACE(tokens);
    const BatchLayout at = BatchLayout::of(tokens);
    std::vector<std::byte> memory(static_cast<std::size_t>(at.size_bytes));
    const model::BatchViews views = batch_views(memory.data(), tokens);
    std::int64_t end = 0;
    for (const TensorView* view : {&views.tokens, &views.labels, &views.positions, &views.segments, &views.loss_scale}) {
      const std::int64_t begin = static_cast<const std::byte*>(view->data) - memory.data();
      EXPECT_EQ(begin % kAlignmentBytes, 0);
      EXPECT_GE(begin, end) << "begins within the member before it";
      EXPECT_LT(begin - end, kAlignmentBytes) << "no more than the alignment is lost";
      end = begin + view->size_bytes();
    }
    EXPECT_LE(end, at.size_bytes);
    EXPECT_LT(at.size_bytes - end, kAlignmentBytes);
    EXPECT_EQ(at.size_bytes % kAlignmentBytes, 0) << "what follows it is aligned too";
  }
}

TEST(BatchLayout, ViewsHaveTheShapesOfAMicroBatch) {
  constexpr std::int64_t kTokens = 65;
  std::vector<std::byte> memory(static_cast<std::size_t>(BatchLayout::of(kTokens).size_bytes));
  const model::BatchViews views = batch_views(memory.data(), kTokens);
  for (const TensorView* view : {&views.tokens, &views.labels, &views.positions}) {
    EXPECT_EQ(view->dtype, DType::kI32);
    EXPECT_EQ(view->rows, 1);
    EXPECT_EQ(view->cols, kTokens);
  }
  EXPECT_EQ(views.segments.dtype, DType::kI32);
  EXPECT_EQ(views.segments.rows, kTokens) << "as many documents as tokens";
  EXPECT_EQ(views.segments.cols, 4);
  EXPECT_EQ(views.loss_scale.dtype, DType::kF32);
  EXPECT_EQ(views.loss_scale.cols, 2);
}

TEST(BatchLayout, OffsetsGoBeyond32Bits) {
  constexpr std::int64_t kTokens = std::int64_t{1} << 30;
  const BatchLayout at = BatchLayout::of(kTokens);
  EXPECT_EQ(at.segments, 3 * 4 * kTokens);
  EXPECT_EQ(at.loss_scale, 7 * 4 * kTokens);
  EXPECT_EQ(at.size_bytes, 7 * 4 * kTokens + kAlignmentBytes);
}

}  // namespace
}  // namespace ida::train
