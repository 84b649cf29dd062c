// What happens to the f32 sums of a product, whichever loops made them.
#pragma once
#include "backend/cpu/gemm_kernels.h"
#include "ops/gemm.h"

namespace ida::cpu {

// A part of C.
struct GemmTile {
  std::int64_t row, num_rows, col, num_cols;
};

// The epilogue of `desc` on sums of a part of C.
inline GemmFinishJob finish_job(const ops::GemmDesc& desc, const ops::GemmArgs& args, const float* sums,
                                std::int64_t sums_stride, const GemmTile& tile) {
  const auto at = [](const TensorView& view, std::int64_t row, std::int64_t col) {
    return static_cast<std::byte*>(view.data) + (row * view.row_stride + col) * dtype_size_bytes(view.dtype);
  };
  const TensorView added = desc.has_residual ? args.residual : desc.accumulate ? args.c : TensorView{};
  return {.sums = sums,
          .c = at(args.c, tile.row, tile.col),
          .bias = desc.has_bias ? at(args.bias, 0, tile.col) : nullptr,
          .added = added.empty() ? nullptr : at(added, tile.row, tile.col),
          .sums_stride = sums_stride,
          .c_stride = args.c.row_stride,
          .added_stride = added.row_stride,
          .num_rows = tile.num_rows,
          .num_cols = tile.num_cols,
          .alpha = ops::value_or_one(args.alpha),
          .c_is_bf16 = args.c.dtype == DType::kBF16,
          .bias_is_bf16 = args.bias.dtype == DType::kBF16};
}

}  // namespace ida::cpu
