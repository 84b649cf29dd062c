#include "backend/cuda/gemm_cublaslt.h"

#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/gemm_plans.h"
#include "backend/cuda/kernels/scalar_product.h"
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

constexpr std::int64_t kAlphaBytes = 256;  // in front of the library's workspace

ops::Refusal supports_fp8(const ops::GemmDesc& desc, const runtime::DeviceInfo& device, bool grids_fit,
                          std::string_view wanted) {
  if (const auto refusal = refuse_without_library(device)) return refusal;
  if (!grids_fit) return {ops::RefusalKind::kDType, wanted};
  if (const auto refusal = ops::refuse_quantized_operands(desc)) return refusal;
  if (desc.a_format.element == formats::Element::kE5m2 && desc.b_format.element == formats::Element::kE5m2)
    return {ops::RefusalKind::kDType, "the library does not multiply e5m2 by e5m2"};
  if (desc.c_dtype != DType::kBF16 && desc.c_dtype != DType::kF32)
    return {ops::RefusalKind::kDType, "result not bf16 or f32"};
  if (desc.has_bias && desc.c_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "bias with a result that is not bf16"};
  if (desc.m % 16 != 0 || desc.n % 16 != 0 || desc.k % 16 != 0)
    return {ops::RefusalKind::kShape, "m, n and k must be multiples of 16"};
  return ops::kAccepted;
}

bool is_fp8(const ops::GemmDesc& desc, formats::ScaleGrid a, formats::ScaleGrid b) {
  return desc.a_format.grid == a && desc.b_format.grid == b;
}

ops::Refusal supports_fp8_tensor(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  using enum formats::ScaleGrid;
  return supports_fp8(desc, device, is_fp8(desc, kTensor, kTensor), "operands are not both fp8_tensor");
}

ops::Refusal refuse_unless_hopper(const ops::Refusal& refusal, const runtime::DeviceInfo& device) {
  if (refusal) return refusal;
  if (device.sm != 90) return {ops::RefusalKind::kHardware, "cuBLASLt has scales of rows and blocks on sm_90 alone"};
  return ops::kAccepted;
}

ops::Refusal supports_fp8_row(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  using enum formats::ScaleGrid;
  return refuse_unless_hopper(supports_fp8(desc, device, is_fp8(desc, kRow, kRow), "operands are not both fp8_row"),
                              device);
}

ops::Refusal supports_fp8_block(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  using enum formats::ScaleGrid;
  const bool fit = is_fp8(desc, kVec128, kBlock128) || is_fp8(desc, kVec128, kVec128) || is_fp8(desc, kBlock128, kVec128);
  if (const auto refusal = supports_fp8(desc, device, fit, "operands are not fp8_vec128 by fp8_block128 or fp8_vec128"))
    return refusal;
  return refuse_unless_hopper(ops::kAccepted, device);
}

// alpha times the operands' tensor scales, in device memory; null where all are 1.
ops::GemmArgs with_tensor_scales(ops::GemmArgs args, const ops::Launch& launch) {
  const float* a = args.a_quantized.tensor_scale;
  const float* b = args.b_quantized.tensor_scale;
  if (a == nullptr && b == nullptr) return args;
  auto* product = reinterpret_cast<float*>(launch.workspace.data());
  check(launch_scalar_product(args.alpha, a, b, product, stream_of(launch)), "scales of a product");
  args.alpha = product;
  return args;
}

std::int64_t fp8_workspace_bytes(const ops::GemmDesc&, const runtime::DeviceInfo&) {
  return kAlphaBytes + kCublasLtWorkspaceBytes;
}

void run_fp8(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  queue_of(launch).gemm_plans().run(desc, with_tensor_scales(args, launch), launch.workspace.subspan(kAlphaBytes));
}

void prepare_fp8(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& scratch) {
  ops::GemmArgs timed = args;
  if (timed.alpha == nullptr) timed.alpha = args.a_quantized.tensor_scale;
  if (timed.alpha == nullptr) timed.alpha = args.b_quantized.tensor_scale;
  queue_of(scratch).gemm_plans().prepare(desc, timed, scratch.workspace);
}

ops::Impl<ops::GemmDesc, ops::GemmArgs> fp8_impl(std::string_view name, decltype(&supports_fp8_row) supports) {
  return {
      .name = name, .supports = supports, .workspace_bytes = fp8_workspace_bytes, .run = run_fp8, .prepare = prepare_fp8};
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

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_tensor() {
  return fp8_impl("cublaslt.fp8_tensor", supports_fp8_tensor);
}
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_row() { return fp8_impl("cublaslt.fp8_row", supports_fp8_row); }
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_block() {
  return fp8_impl("cublaslt.fp8_block", supports_fp8_block);
}

}  // namespace ida::cuda
