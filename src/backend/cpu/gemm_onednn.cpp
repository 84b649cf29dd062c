#include "backend/cpu/gemm_onednn.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/gemm_epilogue.h"
#include "backend/cpu/gemm_kernels.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/onednn.h"
#include "base/parallel.h"
#include "formats/bf16.h"

namespace ida::cpu {
namespace {

using ops::GemmArgs;
using ops::GemmDesc;

constexpr std::int64_t kPanelBytes = std::int64_t{16} << 20;  // packed A and packed B held at a time, each
constexpr std::int64_t kAlignBytes = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t aligned(std::int64_t size_bytes) { return ceil_div(size_bytes, kAlignBytes) * kAlignBytes; }

// Elements between the rows of a tile of A. Rows a multiple of 4 KiB apart would share one set of the
// L1 cache (measured: half the speed of wgrad at k = 8192).
std::int64_t tile_stride(const GemmDesc& desc) {
  const std::int64_t size = dtype_size_bytes(desc.a_dtype);
  return desc.k * size % 4096 == 0 ? desc.k + kAlignBytes / size : desc.k;
}

// The largest panel of at most `most` tiles (at least 1) that cuts `tiles` into equal panels.
std::int64_t even_panel(std::int64_t tiles, std::int64_t most) {
  return ceil_div(tiles, ceil_div(tiles, std::clamp<std::int64_t>(most, 1, tiles)));
}

// out[row][k] for `rows` of kOneDnnTileRows rows, from op(A) stored [k, row]; blocks of one cache line of `out`.
template <typename T>
void transpose_rows(const T* source, std::int64_t stride, std::int64_t rows, std::int64_t num_k, T* out,
                    std::int64_t out_stride) {
  constexpr std::int64_t kBlock = kAlignBytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t begin = 0; begin < num_k; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, num_k);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = begin; k < end; ++k) out[row * out_stride + k] = source[k * stride + row];
    }
  }
}

// The tiles of a problem and the layout of its workspace: packed tiles of A, packed tiles of B, then for each thread a
// tile of sums and oneDNN's scratch.
struct OneDnnPlan {
  std::int64_t row_tiles = 0;
  std::int64_t col_tiles = 0;
  std::int64_t panel_rows = 0;  // row tiles packed at a time
  std::int64_t panel_cols = 0;  // column tiles packed at a time
  std::int64_t a_bytes = 0;     // of a tile
  std::int64_t b_bytes = 0;
  std::int64_t sums_bytes = kOneDnnTileRows * kOneDnnTileCols * 4;
  std::int64_t scratch_bytes = 0;
  int num_threads = 1;

  std::int64_t workspace_bytes() const {
    return panel_rows * a_bytes + panel_cols * b_bytes + num_threads * (sums_bytes + scratch_bytes);
  }
};

// A plan may be for a processor that is not this one: oneDNN makes no primitive for it here, so the size of packed B is
// that of full cache lines.
bool runs_here(const GemmDesc& desc) {
  static const bool has_amx = detect_isa().amx_bf16;
  return desc.a_dtype != DType::kBF16 || has_amx;
}

// One call: planned by the constructor. `b_stride` is not part of a desc; it changes neither the packed layout nor the
// size of the workspace.
class OneDnnGemm {
 public:
  OneDnnGemm(const GemmDesc& desc, std::int64_t b_stride) : desc_(desc), b_stride_(b_stride) {
    plan_.num_threads = num_threads();
    plan_.row_tiles = ceil_div(desc.m, kOneDnnTileRows);
    plan_.col_tiles = ceil_div(desc.n, kOneDnnTileCols);
    plan_.a_bytes = aligned(kOneDnnTileRows * tile_stride(desc) * dtype_size_bytes(desc.a_dtype));
    if (desc.n >= kOneDnnTileCols) prepare(kOneDnnTileCols, full_cols_);
    if (desc.n % kOneDnnTileCols != 0) prepare(desc.n % kOneDnnTileCols, rest_cols_);
    plan_.panel_cols = even_panel(plan_.col_tiles, kPanelBytes / plan_.b_bytes);
    plan_.panel_rows = even_panel(plan_.row_tiles, std::max<std::int64_t>(kPanelBytes / plan_.a_bytes, plan_.num_threads));
  }

  const OneDnnPlan& plan() const { return plan_; }

  void run(const GemmArgs& args, const ops::Launch& launch) {
    assert(static_cast<std::int64_t>(launch.workspace.size()) >= plan_.workspace_bytes());
    args_ = &args;
    kernels_ = &gemm_kernels(launch.device.cpu);
    packed_a_ = launch.workspace.data();
    packed_b_ = packed_a_ + plan_.panel_rows * plan_.a_bytes;
    for (std::int64_t col = 0; col < plan_.col_tiles; col += plan_.panel_cols) {
      const std::int64_t num_cols = std::min(plan_.panel_cols, plan_.col_tiles - col);
      pack_b(col, num_cols);
      for (std::int64_t row = 0; row < plan_.row_tiles; row += plan_.panel_rows) {
        const std::int64_t num_rows = std::min(plan_.panel_rows, plan_.row_tiles - row);
        pack_a(row, num_rows);
        multiply(row, num_rows, col, num_cols);
      }
    }
  }

 private:
  std::int64_t tile_rows(std::int64_t tile) const { return std::min(kOneDnnTileRows, desc_.m - tile * kOneDnnTileRows); }
  std::int64_t tile_cols(std::int64_t tile) const { return std::min(kOneDnnTileCols, desc_.n - tile * kOneDnnTileCols); }

  void prepare(std::int64_t cols, const OneDnnProduct*& product) {
    if (!runs_here(desc_)) {
      plan_.b_bytes = std::max(plan_.b_bytes, aligned(cols * aligned(desc_.k * dtype_size_bytes(desc_.b_dtype))));
      return;
    }
    product = &onednn()->prepare({.is_bf16 = desc_.a_dtype == DType::kBF16,
                                  .m = kOneDnnTileRows,
                                  .n = cols,
                                  .k = desc_.k,
                                  .a_stride = tile_stride(desc_),
                                  .b_transposed = desc_.b_transposed,
                                  .b_stride = b_stride_},
                                 plan_.num_threads);
    plan_.b_bytes = std::max(plan_.b_bytes, aligned(product->packed_b_bytes()));
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, aligned(product->scratch_bytes()));
  }
  const OneDnnProduct& product_of(std::int64_t cols) const { return cols == kOneDnnTileCols ? *full_cols_ : *rest_cols_; }

  std::byte* thread_sums() {
    return packed_b_ + plan_.panel_cols * plan_.b_bytes + thread_index() * (plan_.sums_bytes + plan_.scratch_bytes);
  }
  std::byte* thread_scratch() { return thread_sums() + plan_.sums_bytes; }

  std::byte* element(const TensorView& tensor, std::int64_t row, std::int64_t col) const {
    return static_cast<std::byte*>(tensor.data) + (row * tensor.row_stride + col) * dtype_size_bytes(tensor.dtype);
  }

  // A full tile with the right stride is read where it lies.
  bool a_in_place(std::int64_t tile) const {
    return !desc_.a_transposed && args_->a.row_stride == tile_stride(desc_) && tile_rows(tile) == kOneDnnTileRows;
  }

  void pack_b(std::int64_t first, std::int64_t count) {
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) {
        const std::int64_t col = (first + index) * kOneDnnTileCols;
        const std::byte* b = desc_.b_transposed ? element(args_->b, col, 0) : element(args_->b, 0, col);
        product_of(tile_cols(first + index)).pack_b(thread_index(), b, packed_b_ + index * plan_.b_bytes, thread_scratch());
      }
    });
  }

  void pack_a(std::int64_t first, std::int64_t count) {
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) {
        if (!a_in_place(first + index)) pack_a_tile(first + index, packed_a_ + index * plan_.a_bytes);
      }
    });
  }

  void pack_a_tile(std::int64_t tile, std::byte* out) const {
    const std::int64_t first_row = tile * kOneDnnTileRows;
    const std::int64_t rows = tile_rows(tile);
    const std::int64_t stride = tile_stride(desc_);
    const std::int64_t stride_bytes = stride * dtype_size_bytes(desc_.a_dtype);
    const std::int64_t row_bytes = desc_.k * dtype_size_bytes(desc_.a_dtype);
    const TensorView& a = args_->a;
    if (!desc_.a_transposed) {
      for (std::int64_t row = 0; row < rows; ++row) {
        std::memcpy(out + row * stride_bytes, element(a, first_row + row, 0), static_cast<std::size_t>(row_bytes));
      }
    } else if (desc_.a_dtype == DType::kBF16) {
      transpose_rows(a.as<bf16>() + first_row, a.row_stride, rows, desc_.k, reinterpret_cast<bf16*>(out), stride);
    } else {
      transpose_rows(a.as<float>() + first_row, a.row_stride, rows, desc_.k, reinterpret_cast<float*>(out), stride);
    }
    std::memset(out + rows * stride_bytes, 0, static_cast<std::size_t>((kOneDnnTileRows - rows) * stride_bytes));
  }

  void multiply(std::int64_t first_row, std::int64_t num_rows, std::int64_t first_col, std::int64_t num_cols) {
    parallel_for(num_rows * num_cols, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t row = task / num_cols;
        const std::int64_t col = task % num_cols;
        const std::byte* a = a_in_place(first_row + row) ? element(args_->a, (first_row + row) * kOneDnnTileRows, 0)
                                                         : packed_a_ + row * plan_.a_bytes;
        multiply_tile(first_row + row, first_col + col, a, packed_b_ + col * plan_.b_bytes);
      }
    });
  }

  void multiply_tile(std::int64_t row_tile, std::int64_t col_tile, const std::byte* a, const std::byte* b) {
    const std::int64_t row = row_tile * kOneDnnTileRows;
    const std::int64_t col = col_tile * kOneDnnTileCols;
    const std::int64_t cols = tile_cols(col_tile);
    float* sums = reinterpret_cast<float*>(thread_sums());
    product_of(cols).multiply(thread_index(), a, b, sums, thread_scratch());
    kernels_->finish(finish_job(desc_, *args_, sums, cols, {row, tile_rows(row_tile), col, cols}));
  }

  const GemmDesc& desc_;
  std::int64_t b_stride_;
  OneDnnPlan plan_;
  const OneDnnProduct* full_cols_ = nullptr;
  const OneDnnProduct* rest_cols_ = nullptr;
  const GemmArgs* args_ = nullptr;
  const GemmKernels* kernels_ = nullptr;
  std::byte* packed_a_ = nullptr;
  std::byte* packed_b_ = nullptr;
};

ops::Refusal refuse_common(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (device.onednn_version.empty() || onednn() == nullptr) {
    return {ops::RefusalKind::kLibrary, "oneDNN (libdnnl.so.3 or .2) not found"};
  }
  if (desc.c_dtype != DType::kF32 && desc.c_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "C must be f32 or bf16"};
  if (desc.m == 0 || desc.n == 0 || desc.k == 0) return {ops::RefusalKind::kShape, "oneDNN takes no empty product"};
  return ops::kAccepted;
}

ops::Refusal supports_f32(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (desc.a_dtype != DType::kF32 || desc.b_dtype != DType::kF32) return {ops::RefusalKind::kDType, "operands are not f32"};
  return refuse_common(desc, device);
}

// Without AMX oneDNN's bf16 is slower than f32 (AVX-512: 24 times), or does not exist (AVX2).
ops::Refusal supports_bf16(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (desc.a_dtype != DType::kBF16 || desc.b_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "operands are not both bf16"};
  if (!device.cpu.amx_bf16) return {ops::RefusalKind::kHardware, "no AMX: oneDNN's bf16 would be slower than f32"};
  return refuse_common(desc, device);
}

std::int64_t workspace_bytes(const GemmDesc& desc, const runtime::DeviceInfo&) {
  return OneDnnGemm(desc, desc.b_transposed ? desc.k : desc.n).plan().workspace_bytes();
}

void run(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& launch) {
  OneDnnGemm(desc, args.b.row_stride).run(args, launch);
}

}  // namespace

ops::Impl<GemmDesc, GemmArgs> gemm_onednn_f32() { return {"cpu.onednn.f32", supports_f32, workspace_bytes, run}; }
ops::Impl<GemmDesc, GemmArgs> gemm_onednn_bf16() { return {"cpu.onednn.bf16", supports_bf16, workspace_bytes, run}; }

}  // namespace ida::cpu
