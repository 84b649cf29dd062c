#include "backend/cuda/kernels/gemm_simt.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  check(launch_gemm_simt(desc.a_dtype, desc.b_dtype, desc.c_dtype,
                         {.m = desc.m,
                          .n = desc.n,
                          .k = desc.k,
                          .a_transposed = desc.a_transposed,
                          .b_transposed = desc.b_transposed,
                          .accumulate = desc.accumulate,
                          .a = args.a.data,
                          .b = args.b.data,
                          .c = args.c.data,
                          .bias = desc.has_bias ? args.bias.data : nullptr,
                          .residual = desc.has_residual ? args.residual.data : nullptr,
                          .residual_stride = args.residual.row_stride,
                          .a_stride = args.a.row_stride,
                          .b_stride = args.b.row_stride,
                          .c_stride = args.c.row_stride,
                          .alpha = args.alpha},
                         stream_of(launch)),
        "gemm_simt");
}

ops::Refusal supports(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_other_devices(device)) return refusal;
  if (desc.quantized()) return {ops::RefusalKind::kDType, "operands are quantised"};
  if (desc.m > kGemmSimtMaxRows) return {ops::RefusalKind::kShape, "more rows than the grid takes"};
  return ops::kAccepted;
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_simt() {
  return {
      .name = "own.simt", .supports = supports, .workspace_bytes = nullptr, .run = run, .kind = ops::EngineKind::kEmulated};
}

}  // namespace ida::cuda
