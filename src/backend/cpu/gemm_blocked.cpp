#include "backend/cpu/gemm_blocked.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "backend/cpu/gemm_epilogue.h"
#include "backend/cpu/gemm_kernels.h"
#include "backend/cpu/isa.h"
#include "base/parallel.h"

namespace ida::cpu {

const GemmKernels& gemm_kernels(const runtime::CpuIsa& isa) {
  if constexpr (kHasIsaCopies) {
    if (isa_level(isa) == IsaLevel::kAvx512) return isa_avx512::kGemmKernels;
    if (isa_level(isa) == IsaLevel::kAvx2) return isa_avx2::kGemmKernels;
  }
  return isa_baseline::kGemmKernels;
}

namespace {

using ops::GemmArgs;
using ops::GemmDesc;

// Block sizes in elements; none of them changes a bit of the result. Measured on Zen 3 (32 KiB L1, 512 KiB L2).
constexpr std::int64_t kNarrowRows = 48;  // up to here B is packed by the task that uses it
constexpr std::int64_t kNarrowCols = 64;  // columns of a task of the narrow path
constexpr std::int64_t kTileCols = 256;   // columns of a task of the wide path
constexpr std::int64_t kTileRows[] = {96, 48, 24};
constexpr std::int64_t kTasksPerThread = 4;  // fewer leave threads idle at the end of a panel
constexpr std::int64_t kSharedPanelBytes = std::int64_t{8} << 20;
constexpr std::int64_t kAlignElems = 16;  // 64 bytes
constexpr std::int64_t kSerialProducts = std::int64_t{1}
                                         << 18;  // m*n*k below which a parallel loop costs more than it saves

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// How a problem is cut, and where its buffers lie in the workspace.
struct BlockedPlan {
  bool narrow = false;
  std::int64_t tile_rows = 0;
  std::int64_t tile_cols = 0;
  std::int64_t panel_cols = 0;         // wide: columns of B packed at a time
  std::int64_t shared_elems = 0;       // narrow: all of A; wide: a panel of B
  std::int64_t thread_pack_elems = 0;  // narrow: a chunk of B's block; wide: a chunk of A's tile
  std::int64_t thread_sums_elems = 0;
  int num_threads = 1;

  std::int64_t workspace_bytes() const {
    return 4 * (shared_elems + num_threads * (thread_pack_elems + thread_sums_elems));
  }
};

BlockedPlan make_plan(const GemmDesc& desc, const GemmKernels& kernels, int num_threads) {
  BlockedPlan plan;
  if (desc.m == 0 || desc.n == 0) return plan;
  plan.num_threads = num_threads;
  plan.narrow = desc.m <= kNarrowRows;
  const std::int64_t depth = std::min(desc.k, kGemmChunk);
  if (plan.narrow) {
    plan.tile_rows = round_up(desc.m, kernels.mr);
    plan.tile_cols = round_up(std::min(desc.n, kNarrowCols), kernels.nr);
    plan.shared_elems = plan.tile_rows * desc.k;
    plan.thread_pack_elems = depth * plan.tile_cols;
  } else {
    const std::int64_t padded_cols = round_up(desc.n, kernels.nr);
    plan.tile_cols = std::min(padded_cols, kTileCols);
    const std::int64_t fitting_cols = kSharedPanelBytes / 4 / std::max<std::int64_t>(desc.k, 1);
    plan.panel_cols = std::clamp(fitting_cols / kTileCols * kTileCols, plan.tile_cols, padded_cols);
    for (const std::int64_t rows : kTileRows) {
      plan.tile_rows = round_up(rows, kernels.mr);
      if (num_threads == 1) break;
      if (ceil_div(desc.m, rows) * ceil_div(plan.panel_cols, plan.tile_cols) >= kTasksPerThread * num_threads) break;
    }
    plan.shared_elems = desc.k * plan.panel_cols;
    plan.thread_pack_elems = depth * plan.tile_rows;
  }
  plan.shared_elems = round_up(plan.shared_elems, kAlignElems);
  plan.thread_pack_elems = round_up(plan.thread_pack_elems, kAlignElems);
  plan.thread_sums_elems = round_up(plan.tile_rows * plan.tile_cols, kAlignElems);
  return plan;
}

// One call: the problem, its plan and its buffers.
class BlockedGemm {
 public:
  BlockedGemm(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& launch)
      : desc_(desc),
        args_(args),
        kernels_(gemm_kernels(launch.device.cpu)),
        plan_(make_plan(desc, kernels_, num_threads())) {
    assert(static_cast<std::int64_t>(launch.workspace.size()) >= plan_.workspace_bytes());
    const bool serial = desc.m * desc.n <= kSerialProducts && desc.m * desc.n * desc.k <= kSerialProducts;
    grain_ = serial ? std::numeric_limits<std::int64_t>::max() / 2 : 1;
    shared_ = reinterpret_cast<float*>(launch.workspace.data());
  }

  void run() {
    if (desc_.m == 0 || desc_.n == 0) return;
    if (plan_.narrow) {
      run_narrow();
    } else {
      run_wide();
    }
  }

 private:
  float* thread_pack() {
    return shared_ + plan_.shared_elems + thread_index() * (plan_.thread_pack_elems + plan_.thread_sums_elems);
  }
  float* thread_sums() { return thread_pack() + plan_.thread_pack_elems; }

  GemmPackJob pack_job(const TensorView& source, bool k_contiguous, std::int64_t line, std::int64_t k) const {
    const std::int64_t index = k_contiguous ? line * source.row_stride + k : k * source.row_stride + line;
    return {.source = static_cast<const std::byte*>(source.data) + index * dtype_size_bytes(source.dtype),
            .source_is_bf16 = source.dtype == DType::kBF16,
            .k_contiguous = k_contiguous,
            .stride = source.row_stride,
            .num_k = std::min(kGemmChunk, desc_.k - k)};
  }
  void pack_a(std::int64_t row, std::int64_t num_rows, std::int64_t k, float* out) const {
    GemmPackJob job = pack_job(args_.a, !desc_.a_transposed, row, k);
    job.num_lines = num_rows;
    job.out = out;
    kernels_.pack_a(job);
  }
  void pack_b(std::int64_t col, std::int64_t num_cols, std::int64_t k, float* out) const {
    GemmPackJob job = pack_job(args_.b, desc_.b_transposed, col, k);
    job.num_lines = num_cols;
    job.out = out;
    kernels_.pack_b(job);
  }

  void multiply(const float* a, const float* b, std::int64_t num_rows, std::int64_t num_cols, std::int64_t k,
                float* sums) const {
    const std::int64_t depth = std::min(kGemmChunk, desc_.k - k);
    kernels_.multiply({.a = a,
                       .b = b,
                       .sums = sums,
                       .a_panel_stride = depth * kernels_.mr,
                       .b_panel_stride = depth * kernels_.nr,
                       .sums_stride = plan_.tile_cols,
                       .num_rows = num_rows,
                       .num_cols = num_cols,
                       .num_k = depth,
                       .add = k > 0});
  }

  void finish(std::int64_t row, std::int64_t num_rows, std::int64_t col, std::int64_t num_cols, const float* sums) const {
    kernels_.finish(finish_job(desc_, args_, sums, plan_.tile_cols, {row, num_rows, col, num_cols}));
  }

  // With k = 0 no chunk writes the sums.
  void clear_if_empty(float* sums) const {
    if (desc_.k == 0) std::memset(sums, 0, static_cast<std::size_t>(plan_.thread_sums_elems) * sizeof(float));
  }

  void run_narrow() {
    const std::int64_t num_chunks = ceil_div(desc_.k, kGemmChunk);
    parallel_for(num_chunks, grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        pack_a(0, desc_.m, chunk * kGemmChunk, shared_ + chunk * kGemmChunk * plan_.tile_rows);
      }
    });
    parallel_for(ceil_div(desc_.n, plan_.tile_cols), grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t col = block * plan_.tile_cols;
        const std::int64_t num_cols = std::min(plan_.tile_cols, desc_.n - col);
        float* sums = thread_sums();
        clear_if_empty(sums);
        for (std::int64_t k = 0; k < desc_.k; k += kGemmChunk) {
          pack_b(col, num_cols, k, thread_pack());
          multiply(shared_ + k * plan_.tile_rows, thread_pack(), desc_.m, num_cols, k, sums);
        }
        finish(0, desc_.m, col, num_cols, sums);
      }
    });
  }

  void run_wide() {
    for (std::int64_t col = 0; col < desc_.n; col += plan_.panel_cols) {
      const std::int64_t num_cols = std::min(plan_.panel_cols, desc_.n - col);
      pack_shared_panel(col, num_cols);
      multiply_shared_panel(col, num_cols);
    }
  }

  // Chunk after chunk; inside a chunk the panels of kernels_.nr columns, each [depth][nr].
  float* shared_block(std::int64_t panel_cols, std::int64_t k, std::int64_t col) {
    return shared_ + k * panel_cols + col * std::min(kGemmChunk, desc_.k - k);
  }

  void pack_shared_panel(std::int64_t first_col, std::int64_t num_cols) {
    const std::int64_t padded_cols = round_up(num_cols, kernels_.nr);
    const std::int64_t num_blocks = ceil_div(num_cols, kNarrowCols);
    const std::int64_t num_chunks = ceil_div(desc_.k, kGemmChunk);
    parallel_for(num_blocks * num_chunks, grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t k = task / num_blocks * kGemmChunk;
        const std::int64_t col = task % num_blocks * kNarrowCols;
        pack_b(first_col + col, std::min(kNarrowCols, num_cols - col), k, shared_block(padded_cols, k, col));
      }
    });
  }

  void multiply_shared_panel(std::int64_t first_col, std::int64_t panel_cols) {
    const std::int64_t padded_cols = round_up(panel_cols, kernels_.nr);
    const std::int64_t col_tiles = ceil_div(panel_cols, plan_.tile_cols);
    const std::int64_t row_tiles = ceil_div(desc_.m, plan_.tile_rows);
    parallel_for(row_tiles * col_tiles, grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t row = tile / col_tiles * plan_.tile_rows;
        const std::int64_t col = tile % col_tiles * plan_.tile_cols;
        const std::int64_t num_rows = std::min(plan_.tile_rows, desc_.m - row);
        const std::int64_t num_cols = std::min(plan_.tile_cols, panel_cols - col);
        float* sums = thread_sums();
        clear_if_empty(sums);
        for (std::int64_t k = 0; k < desc_.k; k += kGemmChunk) {
          pack_a(row, num_rows, k, thread_pack());
          multiply(thread_pack(), shared_block(padded_cols, k, col), num_rows, num_cols, k, sums);
        }
        finish(row, num_rows, first_col + col, num_cols, sums);
      }
    });
  }

  const GemmDesc& desc_;
  const GemmArgs& args_;
  const GemmKernels& kernels_;
  BlockedPlan plan_;
  std::int64_t grain_ = 1;  // tasks a thread takes at a time
  float* shared_ = nullptr;
};

ops::Refusal refuse_common(const GemmDesc& desc) {
  if (desc.c_dtype != DType::kF32 && desc.c_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "C must be f32 or bf16"};
  return ops::kAccepted;
}

ops::Refusal supports_f32(const GemmDesc& desc, const runtime::DeviceInfo&) {
  if (desc.a_dtype != DType::kF32 || desc.b_dtype != DType::kF32) return {ops::RefusalKind::kDType, "operands are not f32"};
  return refuse_common(desc);
}

ops::Refusal supports_widened(const GemmDesc& desc, const runtime::DeviceInfo&) {
  const auto is_float = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  const bool any_bf16 = desc.a_dtype == DType::kBF16 || desc.b_dtype == DType::kBF16;
  if (!any_bf16 || !is_float(desc.a_dtype) || !is_float(desc.b_dtype)) {
    return {ops::RefusalKind::kDType, "no operand is bf16"};
  }
  return refuse_common(desc);
}

std::int64_t workspace_bytes(const GemmDesc& desc, const runtime::DeviceInfo& device) {
  return make_plan(desc, gemm_kernels(device.cpu), num_threads()).workspace_bytes();
}

void run(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& launch) { BlockedGemm(desc, args, launch).run(); }

}  // namespace

ops::Impl<GemmDesc, GemmArgs> gemm_blocked_f32() { return {"cpu.blocked.f32", supports_f32, workspace_bytes, run}; }
ops::Impl<GemmDesc, GemmArgs> gemm_blocked_bf16_widened() {
  return {"cpu.blocked.bf16_widened", supports_widened, workspace_bytes, run, ops::EngineKind::kEmulated};
}

}  // namespace ida::cpu
