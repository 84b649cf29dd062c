// What the emulated products ask of other units: there is no cuBLASLt, and conversions are the processor's.
#include "backend/cpu/elementwise.h"
#include "backend/cuda/gemm_cublaslt.h"
#include "backend/cuda/op_impls.h"

namespace ida::cuda {
namespace {

ops::Refusal not_here(const ops::GemmDesc&, const runtime::DeviceInfo&) {
  return {ops::RefusalKind::kLibrary, "the emulated device has no cuBLASLt"};
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16() {
  return {.name = "cublaslt.bf16", .supports = not_here, .workspace_bytes = nullptr, .run = nullptr};
}
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32() {
  return {.name = "cublaslt.f32", .supports = not_here, .workspace_bytes = nullptr, .run = nullptr};
}
ops::ConvertList convert_impls() { return cpu::convert_impls(); }

}  // namespace ida::cuda
