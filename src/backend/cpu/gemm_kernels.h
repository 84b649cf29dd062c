// The inner loops of the blocked f32 GEMM, one copy per instruction set.
//
// Every element of a product is one chain of f32 fused multiply-adds over kGemmChunk consecutive k, started from 0;
// the chunks are added in ascending k. All copies with FMA give the same bits; the baseline copy rounds each product.
// An element's chain never depends on its row, on its column, on the size of the product or on the tiles around it:
// operands are packed into zero-padded panels, so that no edge case has code of its own.
#pragma once
#include <cstdint>

#include "runtime/device_info.h"

namespace ida::cpu {

inline constexpr std::int64_t kGemmChunk = 256;  // k per chunk; part of the definition of the bits

// "Lines" are rows of op(A) or columns of op(B). Writes panels of `width` lines: out[panel][k][width], f32, zeros for
// the lines past the last one.
struct GemmPackJob {
  const void* source = nullptr;  // line 0, k = 0
  bool source_is_bf16 = false;
  bool k_contiguous = false;  // element (line, k) is at line * stride + k, else at k * stride + line
  std::int64_t stride = 0;    // elements
  std::int64_t num_lines = 0;
  std::int64_t num_k = 0;
  float* out = nullptr;
};

// sums[row][col] = (add ? sums[row][col] : 0) + sum over k of A[row][k] B[k][col] on packed panels.
// `sums` is written up to num_cols rounded up to a panel; rows past num_rows are not touched.
struct GemmBlockJob {
  const float* a = nullptr;  // panels of mr rows, num_k deep
  const float* b = nullptr;  // panels of nr columns
  float* sums = nullptr;
  std::int64_t a_panel_stride = 0;  // elements between panels
  std::int64_t b_panel_stride = 0;
  std::int64_t sums_stride = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t num_k = 0;  // <= kGemmChunk
  bool add = false;
};

// c = alpha * sums (+ bias) (+ added), in f32, rounded once to c's type.
struct GemmFinishJob {
  const float* sums = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;   // of num_cols; null: none
  const void* added = nullptr;  // of c's type: the residual, or c itself when accumulating; null: none
  std::int64_t sums_stride = 0;
  std::int64_t c_stride = 0;  // elements
  std::int64_t added_stride = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  float alpha = 1.0f;
  bool c_is_bf16 = false;
  bool bias_is_bf16 = false;
};

struct GemmKernels {
  std::int64_t mr;  // rows of a packed panel of A
  std::int64_t nr;  // columns of a packed panel of B
  void (*pack_a)(const GemmPackJob&);
  void (*pack_b)(const GemmPackJob&);
  void (*multiply)(const GemmBlockJob&);
  void (*finish)(const GemmFinishJob&);
};

namespace isa_baseline {
extern const GemmKernels kGemmKernels;
}
namespace isa_avx2 {
extern const GemmKernels kGemmKernels;
}
namespace isa_avx512 {
extern const GemmKernels kGemmKernels;
}
const GemmKernels& gemm_kernels(const runtime::CpuIsa& isa);

}  // namespace ida::cpu
