#include "backend/cuda/gemm_cublaslt.h"

#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/gemm_plans.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

ops::Refusal refuse_without_library(const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_other_devices(device)) return refusal;
  if (device.cublaslt_version.empty()) return {ops::RefusalKind::kLibrary, "cuBLASLt was not found"};
  return ops::kAccepted;
}

ops::Refusal supports_bf16(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_without_library(device)) return refusal;
  if (desc.a_dtype != DType::kBF16 || desc.b_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "operands are not bf16"};
  if (desc.has_bias && desc.c_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "bias with a result that is not bf16"};
  return ops::kAccepted;
}

ops::Refusal supports_f32(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_without_library(device)) return refusal;
  if (desc.a_dtype != DType::kF32 || desc.b_dtype != DType::kF32 || desc.c_dtype != DType::kF32)
    return {ops::RefusalKind::kDType, "operands are not all f32"};
  return ops::kAccepted;
}

std::int64_t workspace_bytes(const ops::GemmDesc&, const runtime::DeviceInfo&) { return kCublasLtWorkspaceBytes; }

void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  queue_of(launch).gemm_plans().run(desc, args, launch.workspace);
}

void prepare(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& scratch) {
  queue_of(scratch).gemm_plans().prepare(desc, args, scratch.workspace);
}

ops::Impl<ops::GemmDesc, ops::GemmArgs> impl(std::string_view name, decltype(&supports_bf16) supports) {
  return {.name = name, .supports = supports, .workspace_bytes = workspace_bytes, .run = run, .prepare = prepare};
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16() { return impl("cublaslt.bf16", supports_bf16); }
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32() { return impl("cublaslt.f32", supports_f32); }

}  // namespace ida::cuda
