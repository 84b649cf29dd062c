// The inner loops of all ops but GEMM, one copy per instruction set (see isa.h). A kernel does a range of independent
// items on one thread; <op>.cpp splits the op into items, so that what an item computes does not depend on threads.
#pragma once
#include <cstdint>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/quantize_tile.h"
#include "ops/backend.h"
#include "runtime/device_info.h"

namespace ida::cpu {

using Index = std::int64_t;

struct OpKernels {
  // Items are (row, group) pairs, row * num_groups + group.
  void (*rms_norm_forward)(const ops::RmsNormDesc&, const ops::RmsNormForwardArgs&, Index begin, Index end);
  // Also adds the items' dy * xhat to `grad_w_sum` [cols], item by item.
  void (*rms_norm_backward)(const ops::RmsNormDesc&, const ops::RmsNormBackwardArgs&, Index begin, Index end,
                            float* grad_w_sum);
  // Rows.
  void (*rope)(const ops::RopeDesc&, const ops::RopeArgs&, Index begin, Index end);
  void (*swiglu_forward)(const ops::SwigluDesc&, const ops::SwigluForwardArgs&, Index begin, Index end);
  void (*swiglu_backward)(const ops::SwigluDesc&, const ops::SwigluBackwardArgs&, Index begin, Index end);
  void (*cross_entropy)(const ops::CrossEntropyDesc&, const ops::CrossEntropyArgs&, Index begin, Index end);
  // to[i] += scale * from[i], product and sum rounded each; `from` is f32 or bf16.
  void (*add_scaled)(float* to, const void* from, DType from_dtype, float scale, Index size);
  // y[i] = a[i] + b[i] of one row.
  void (*add)(DType dtype, const void* a, const void* b, void* y, Index size);
  // y[i] = round(x[i]) of one row.
  void (*convert)(DType from, DType to, const void* x, void* y, Index size);
  // Elements of the flat buffers, of one tensor.
  void (*optimizer)(const ops::OptimizerDesc&, const ops::OptimizerArgs&, bool decay, Index begin, Index end);
  void (*attention_forward)(const ops::AttentionDesc&, const ops::AttentionForwardArgs&, const AttentionQueryItem&,
                            float* scratch);
  void (*attention_backward)(const ops::AttentionDesc&, const ops::AttentionBackwardArgs&, const AttentionBackwardItem&,
                             float* scratch);
  // A tile of rows kTileStride apart, bf16 as it is or f32.
  void (*quantize_read)(const TileSource&, DType tile_dtype, void* tile);
  // formats::Amax of every block, row by row; `block` is a multiple of 16.
  void (*quantize_amax)(const Tile&, Index block, std::uint32_t* amax);
  void (*quantize_mx_scales)(const std::uint32_t* amax, Index size, const formats::QuantFormat&, std::uint8_t* scales);
  void (*quantize_nv_scales)(const std::uint32_t* amax, Index size, float tensor_scale, std::uint8_t* scales);
  void (*quantize_encode)(const Tile&, const TileEncoding&);
  // Codes of a row times its blocks' scales, then times the tensor's; `y` is of `dtype`.
  void (*dequantize)(const DequantizeRow&, DType dtype, void* y);
};

namespace isa_baseline {
extern const OpKernels kOpKernels;
}
namespace isa_avx2 {
extern const OpKernels kOpKernels;
}
namespace isa_avx512 {
extern const OpKernels kOpKernels;
}
const OpKernels& op_kernels(const runtime::CpuIsa& isa);

}  // namespace ida::cpu
