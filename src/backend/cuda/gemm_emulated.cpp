// emulated.bf16: the codes and scales that the pack wrote are widened to bf16, which holds them exactly, and multiplied as
// bf16; the tensors' scales enter as alpha.
#include "backend/cuda/gemm_cublaslt.h"
#include "backend/cuda/kernels/scalar_product.h"
#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

ops::GemmDesc wide_desc(ops::GemmDesc desc) {
  desc.a_format = {};
  desc.b_format = {};
  desc.a_dtype = DType::kBF16;
  desc.b_dtype = DType::kBF16;
  desc.fast_accumulation = false;
  return desc;
}

const ops::Impl<ops::GemmDesc, ops::GemmArgs>& wide_impl(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  static const ops::GemmImplList list = {gemm_cublaslt_bf16(), gemm_simt()};
  return ops::choose(list, wide_desc(desc), device, "gemm");
}

ops::DequantizeDesc dequantize_desc(const formats::QuantFormat& format, std::int64_t rows, std::int64_t k) {
  return {.rows = rows,
          .cols = k,
          .format = format,
          .layout = formats::ScaleLayout::kProduct,
          .dtype = DType::kBF16,
          .with_tensor_scale = false};
}

// Where everything lies in the workspace.
struct Places {
  std::int64_t a, b, rest, size_bytes;
};
Places places(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  const auto aligned = [](std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  const auto& wide = wide_impl(desc, device);
  const std::int64_t a = kAlignment;  // alpha before it
  const std::int64_t b = a + aligned(desc.m * desc.k * 2);
  const std::int64_t rest = b + aligned(desc.n * desc.k * 2);
  return {a, b, rest, rest + (wide.workspace_bytes != nullptr ? wide.workspace_bytes(wide_desc(desc), device) : 0)};
}

ops::Refusal supports(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_other_devices(device)) return refusal;
  if (const auto refusal = ops::refuse_quantized_operands(desc)) return refusal;
  if (formats::has_f32_scales(desc.a_format.grid) || formats::has_f32_scales(desc.b_format.grid))
    return {ops::RefusalKind::kDType, "bf16 does not hold elements under f32 scales exactly"};
  return ops::kAccepted;
}

std::int64_t workspace_bytes(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  return places(desc, device).size_bytes;
}

void widen(const ops::QuantizedView& x, const formats::QuantFormat& format, std::int64_t rows, std::int64_t k,
           std::byte* memory, const ops::Launch& launch) {
  static const ops::DequantizeList list = dequantize_impls();
  const ops::DequantizeDesc desc = dequantize_desc(format, rows, k);
  ops::choose(list, desc, launch.device, "dequantize").run(desc, {.x = x, .y = {memory, DType::kBF16, rows, k, k}}, launch);
}

ops::GemmArgs wide_args(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> workspace,
                        const Places& at) {
  ops::GemmArgs wide = args;
  wide.a = {workspace.data() + at.a, DType::kBF16, desc.m, desc.k, desc.k};
  wide.b = {workspace.data() + at.b, DType::kBF16, desc.n, desc.k, desc.k};
  if (args.a_quantized.tensor_scale != nullptr || args.b_quantized.tensor_scale != nullptr)
    wide.alpha = reinterpret_cast<const float*>(workspace.data());
  return wide;
}

void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  const Places at = places(desc, launch.device);
  const ops::GemmArgs wide = wide_args(desc, args, launch.workspace, at);
  if (wide.alpha != args.alpha)
    check(launch_scalar_product(args.alpha, args.a_quantized.tensor_scale, args.b_quantized.tensor_scale,
                                reinterpret_cast<float*>(launch.workspace.data()), stream_of(launch)),
          "scales of a product");
  widen(args.a_quantized, desc.a_format, desc.m, desc.k, static_cast<std::byte*>(wide.a.data), launch);
  widen(args.b_quantized, desc.b_format, desc.n, desc.k, static_cast<std::byte*>(wide.b.data), launch);
  const ops::Launch rest{launch.device, launch.workspace.subspan(static_cast<std::size_t>(at.rest)), launch.queue};
  wide_impl(desc, launch.device).run(wide_desc(desc), wide, rest);
}

void prepare(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& scratch) {
  const auto& wide = wide_impl(desc, scratch.device);
  if (wide.prepare != nullptr)
    wide.prepare(wide_desc(desc), wide_args(desc, args, scratch.workspace, places(desc, scratch.device)), scratch);
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_emulated() {
  return {.name = "emulated.bf16",
          .supports = supports,
          .workspace_bytes = workspace_bytes,
          .run = run,
          .kind = ops::EngineKind::kEmulated,
          .prepare = prepare};
}

}  // namespace ida::cuda
