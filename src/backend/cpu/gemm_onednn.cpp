#include "backend/cpu/gemm_onednn.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/gemm_kernels.h"
#include "backend/cpu/onednn.h"
#include "base/parallel.h"

namespace ida::cpu {
namespace {

using ops::GemmArgs;
using ops::GemmDesc;

constexpr std::int64_t kPanelBytes = std::int64_t{8} << 20;  // packed B held at a time
constexpr std::int64_t kAlignBytes = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t aligned(std::int64_t size_bytes) { return ceil_div(size_bytes, kAlignBytes) * kAlignBytes; }

// Row strides are not part of a desc; the workspace is sized with those of contiguous operands, which do not matter
// to the packed layout or to the scratchpad.
struct Strides {
  std::int64_t a = 0;
  std::int64_t b = 0;
};
Strides contiguous_strides(const GemmDesc& desc) {
  return {desc.a_transposed ? desc.m : desc.k, desc.b_transposed ? desc.k : desc.n};
}

// The tiles of a problem and the layout of its workspace.
struct OneDnnPlan {
  std::int64_t full_row_tiles = 0;
  std::int64_t rest_rows = 0;   // rows of the padded tile
  std::int64_t col_tiles = 0;
  std::int64_t panel_tiles = 0; // column tiles packed at a time
  std::int64_t packed_bytes = 0;
  std::int64_t rest_a_bytes = 0;
  std::int64_t sums_bytes = 0;
  std::int64_t scratch_bytes = 0;
  int num_threads = 1;

  std::int64_t row_tiles() const { return full_row_tiles + (rest_rows > 0 ? 1 : 0); }
  std::int64_t workspace_bytes() const {
    return panel_tiles * packed_bytes + rest_a_bytes + num_threads * (sums_bytes + scratch_bytes);
  }
};

// One call: planned by the constructor.
class OneDnnGemm {
 public:
  OneDnnGemm(const GemmDesc& desc, const Strides& strides) : desc_(desc), strides_(strides) {
    plan_.num_threads = num_threads();
    plan_.full_row_tiles = desc.m / kOneDnnTileRows;
    plan_.rest_rows = desc.m % kOneDnnTileRows;
    plan_.col_tiles = ceil_div(desc.n, kOneDnnTileCols);
    plan_.sums_bytes = kOneDnnTileRows * kOneDnnTileCols * 4;
    plan_.rest_a_bytes = plan_.rest_rows > 0 ? aligned(kOneDnnTileRows * desc.k * dtype_size_bytes(desc.a_dtype)) : 0;
    for (const bool rest_rows : {false, true}) {
      if ((rest_rows ? plan_.rest_rows : plan_.full_row_tiles) == 0) continue;
      if (desc.n >= kOneDnnTileCols) prepare(rest_rows, false);
      if (desc.n % kOneDnnTileCols != 0) prepare(rest_rows, true);
    }
    plan_.panel_tiles = std::clamp<std::int64_t>(kPanelBytes / std::max<std::int64_t>(plan_.packed_bytes, 1), 1, plan_.col_tiles);
  }

  const OneDnnPlan& plan() const { return plan_; }

  void run(const GemmArgs& args, const ops::Launch& launch) {
    assert(static_cast<std::int64_t>(launch.workspace.size()) >= plan_.workspace_bytes());
    args_ = &args;
    kernels_ = &gemm_kernels(launch.device.cpu);
    packed_ = launch.workspace.data();
    rest_a_ = packed_ + plan_.panel_tiles * plan_.packed_bytes;
    if (plan_.rest_rows > 0) copy_rest_rows();
    for (std::int64_t first = 0; first < plan_.col_tiles; first += plan_.panel_tiles) {
      const std::int64_t count = std::min(plan_.panel_tiles, plan_.col_tiles - first);
      pack_tiles(first, count);
      multiply_tiles(first, count);
    }
  }

 private:
  std::int64_t tile_cols(std::int64_t tile) const { return std::min(kOneDnnTileCols, desc_.n - tile * kOneDnnTileCols); }

  void prepare(bool rest_rows, bool rest_cols) {
    const std::int64_t rest_stride = desc_.a_transposed ? kOneDnnTileRows : desc_.k;
    const OneDnnProduct& product = onednn()->prepare(
        {.is_bf16 = desc_.a_dtype == DType::kBF16, .m = kOneDnnTileRows,
         .n = rest_cols ? desc_.n % kOneDnnTileCols : kOneDnnTileCols, .k = desc_.k,
         .a_transposed = desc_.a_transposed, .b_transposed = desc_.b_transposed,
         .a_stride = rest_rows ? rest_stride : strides_.a, .b_stride = strides_.b},
        plan_.num_threads);
    products_[rest_rows][rest_cols] = &product;
    plan_.packed_bytes = std::max(plan_.packed_bytes, aligned(product.packed_b_bytes()));
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, aligned(product.scratch_bytes()));
  }
  const OneDnnProduct& product_of(bool rest_rows, std::int64_t cols) const {
    return *products_[rest_rows][cols < kOneDnnTileCols];
  }

  std::byte* thread_sums() {
    return rest_a_ + plan_.rest_a_bytes + thread_index() * (plan_.sums_bytes + plan_.scratch_bytes);
  }
  std::byte* thread_scratch() { return thread_sums() + plan_.sums_bytes; }

  const std::byte* element(const TensorView& tensor, std::int64_t row, std::int64_t col) const {
    return static_cast<const std::byte*>(tensor.data) + (row * tensor.row_stride + col) * dtype_size_bytes(tensor.dtype);
  }

  void copy_rest_rows() {
    const std::int64_t element_bytes = dtype_size_bytes(desc_.a_dtype);
    const std::int64_t first_row = plan_.full_row_tiles * kOneDnnTileRows;
    std::memset(rest_a_, 0, static_cast<std::size_t>(plan_.rest_a_bytes));
    const std::int64_t stored_rows = desc_.a_transposed ? desc_.k : plan_.rest_rows;
    const std::int64_t stored_cols = desc_.a_transposed ? plan_.rest_rows : desc_.k;
    const std::int64_t stored_stride = desc_.a_transposed ? kOneDnnTileRows : desc_.k;
    for (std::int64_t row = 0; row < stored_rows; ++row) {
      const std::byte* from = desc_.a_transposed ? element(args_->a, row, first_row) : element(args_->a, first_row + row, 0);
      std::memcpy(rest_a_ + row * stored_stride * element_bytes, from, static_cast<std::size_t>(stored_cols * element_bytes));
    }
  }

  void pack_tiles(std::int64_t first, std::int64_t count) {
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) {
        const std::int64_t col = (first + index) * kOneDnnTileCols;
        const OneDnnProduct& product = product_of(plan_.full_row_tiles == 0, tile_cols(first + index));
        const std::byte* b = desc_.b_transposed ? element(args_->b, col, 0) : element(args_->b, 0, col);
        product.pack_b(thread_index(), b, packed_ + index * plan_.packed_bytes, thread_scratch());
      }
    });
  }

  void multiply_tiles(std::int64_t first, std::int64_t count) {
    parallel_for(plan_.row_tiles() * count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) multiply_tile(task / count, first + task % count, task % count);
    });
  }

  void multiply_tile(std::int64_t row_tile, std::int64_t col_tile, std::int64_t packed_index) {
    const bool rest = row_tile == plan_.full_row_tiles;
    const std::int64_t row = row_tile * kOneDnnTileRows;
    const std::int64_t col = col_tile * kOneDnnTileCols;
    const std::int64_t cols = tile_cols(col_tile);
    const std::byte* a = desc_.a_transposed ? element(args_->a, 0, row) : element(args_->a, row, 0);
    float* sums = reinterpret_cast<float*>(thread_sums());
    product_of(rest, cols).multiply(thread_index(), rest ? rest_a_ : a, packed_ + packed_index * plan_.packed_bytes, sums, thread_scratch());
    const TensorView& bias = args_->bias;
    kernels_->finish({.sums = sums, .c = const_cast<std::byte*>(element(args_->c, row, col)),
                      .bias = desc_.has_bias ? element(bias, 0, col) : nullptr,
                      .sums_stride = cols, .c_stride = args_->c.row_stride,
                      .num_rows = rest ? plan_.rest_rows : kOneDnnTileRows, .num_cols = cols, .alpha = args_->alpha,
                      .accumulate = desc_.accumulate, .c_is_bf16 = desc_.c_dtype == DType::kBF16,
                      .bias_is_bf16 = bias.dtype == DType::kBF16});
  }

  const GemmDesc& desc_;
  Strides strides_;
  OneDnnPlan plan_;
  const OneDnnProduct* products_[2][2] = {};  // [rows that do not fill a tile][columns that do not]
  const GemmArgs* args_ = nullptr;
  const GemmKernels* kernels_ = nullptr;
  std::byte* packed_ = nullptr;
  std::byte* rest_a_ = nullptr;
};

ops::Refusal refuse_common(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (device.onednn_version.empty() || onednn() == nullptr) {
    return {ops::RefusalKind::kLibrary, "oneDNN (libdnnl.so.3 or .2) not found"};
  }
  if (desc.c_dtype != DType::kF32 && desc.c_dtype != DType::kBF16) return {ops::RefusalKind::kDType, "C must be f32 or bf16"};
  if (desc.accumulate && desc.c_dtype != DType::kF32) return {ops::RefusalKind::kDType, "accumulation needs C in f32"};
  if (desc.m == 0 || desc.n == 0 || desc.k == 0) return {ops::RefusalKind::kShape, "oneDNN takes no empty product"};
  return ops::kAccepted;
}

ops::Refusal supports_f32(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (desc.a_dtype != DType::kF32 || desc.b_dtype != DType::kF32) return {ops::RefusalKind::kDType, "operands are not f32"};
  return refuse_common(desc, device);
}

// Without AMX oneDNN's bf16 is slower than f32 (AVX-512: 24 times), or does not exist (AVX2).
ops::Refusal supports_bf16(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (desc.a_dtype != DType::kBF16 || desc.b_dtype != DType::kBF16) return {ops::RefusalKind::kDType, "operands are not both bf16"};
  if (!device.cpu.amx_bf16) return {ops::RefusalKind::kHardware, "no AMX: bf16 would be slower than f32"};
  return refuse_common(desc, device);
}

std::int64_t workspace_bytes(const GemmDesc& desc, const runtime::DeviceInfo&) {
  return OneDnnGemm(desc, contiguous_strides(desc)).plan().workspace_bytes();
}

void run(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& launch) {
  OneDnnGemm(desc, {args.a.row_stride, args.b.row_stride}).run(args, launch);
}

}  // namespace

ops::Impl<GemmDesc, GemmArgs> gemm_onednn_f32() { return {"cpu.onednn.f32", supports_f32, workspace_bytes, run}; }
ops::Impl<GemmDesc, GemmArgs> gemm_onednn_bf16() { return {"cpu.onednn.bf16", supports_bf16, workspace_bytes, run}; }

}  // namespace ida::cpu
