// The codes and scales that the pack wrote are widened and multiplied; the tensors' scales enter as alpha. emulated.bf16
// takes MX and NVFP4, which bf16 holds exactly; emulated.f32 FP8 under f32 scales, element * scale rounded to f32: what the
// library's FP8 engines refuse.
#include "backend/cuda/gemm_cublaslt.h"
#include "backend/cuda/kernels/gemm_simt.h"
#include "backend/cuda/kernels/scalar_product.h"
#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

using ops::GemmArgs;
using ops::GemmDesc;
using runtime::DeviceInfo;

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <DType kWide>
struct Emulated {
  static GemmDesc wide_desc(GemmDesc desc) {
    desc.a_format = {};
    desc.b_format = {};
    desc.a_dtype = kWide;
    desc.b_dtype = kWide;
    desc.fast_accumulation = false;
    return desc;
  }

  static const ops::Impl<GemmDesc, GemmArgs>& impl(const GemmDesc& desc, const DeviceInfo& device) {
    static const ops::GemmImplList list = {kWide == DType::kF32 ? gemm_cublaslt_f32() : gemm_cublaslt_bf16(), gemm_simt()};
    return ops::choose(list, wide_desc(desc), device, "gemm");
  }

  // Where everything lies in the workspace: alpha, the operands, the bias, what the product needs.
  struct Places {
    std::int64_t a, b, bias, rest, size_bytes;
  };
  static Places places(const GemmDesc& desc, const DeviceInfo& device) {
    const auto& wide = impl(desc, device);
    Places p{};
    p.a = aligned(sizeof(float));
    p.b = p.a + aligned(desc.m * desc.k * dtype_size_bytes(kWide));
    p.bias = p.b + aligned(desc.n * desc.k * dtype_size_bytes(kWide));
    p.rest = p.bias + (widens_bias(desc) ? aligned(desc.n * dtype_size_bytes(kWide)) : 0);
    p.size_bytes = p.rest + (wide.workspace_bytes != nullptr ? wide.workspace_bytes(wide_desc(desc), device) : 0);
    return p;
  }
  static bool widens_bias(const GemmDesc& desc) { return desc.has_bias && kWide != DType::kBF16; }

  static ops::Refusal supports(const GemmDesc& desc, const DeviceInfo& device) {
    if (const auto refusal = refuse_other_devices(device)) return refusal;
    if (const auto refusal = ops::refuse_quantized_operands(desc)) return refusal;
    const bool f32_scales = formats::has_f32_scales(desc.a_format.grid) || formats::has_f32_scales(desc.b_format.grid);
    if (kWide == DType::kBF16 && f32_scales)
      return {ops::RefusalKind::kDType, "bf16 does not hold elements under f32 scales exactly"};
    if (desc.m > kGemmSimtMaxRows) return {ops::RefusalKind::kShape, "more rows than the grid takes"};
    return ops::kAccepted;
  }

  static std::int64_t workspace_bytes(const GemmDesc& desc, const DeviceInfo& device) {
    return places(desc, device).size_bytes;
  }

  static void widen(const ops::QuantizedView& x, const formats::QuantFormat& format, const TensorView& y,
                    const ops::Launch& launch) {
    static const ops::DequantizeList list = dequantize_impls();
    const ops::DequantizeDesc desc{.rows = y.rows,
                                   .cols = y.cols,
                                   .format = format,
                                   .layout = formats::ScaleLayout::kProduct,
                                   .dtype = kWide,
                                   .with_tensor_scale = false};
    ops::choose(list, desc, launch.device, "dequantize").run(desc, {.x = x, .y = y}, launch);
  }

  static GemmArgs wide_args(const GemmDesc& desc, const GemmArgs& args, std::span<std::byte> workspace, const Places& at) {
    GemmArgs wide = args;
    wide.a = {workspace.data() + at.a, kWide, desc.m, desc.k, desc.k};
    wide.b = {workspace.data() + at.b, kWide, desc.n, desc.k, desc.k};
    if (widens_bias(desc)) wide.bias = {workspace.data() + at.bias, kWide, 1, desc.n, desc.n};
    if (args.a_quantized.tensor_scale != nullptr || args.b_quantized.tensor_scale != nullptr)
      wide.alpha = reinterpret_cast<const float*>(workspace.data());
    return wide;
  }

  static void run(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& launch) {
    const Places at = places(desc, launch.device);
    const GemmArgs wide = wide_args(desc, args, launch.workspace, at);
    if (wide.alpha != args.alpha)
      check(launch_scalar_product(args.alpha, args.a_quantized.tensor_scale, args.b_quantized.tensor_scale,
                                  reinterpret_cast<float*>(launch.workspace.data()), stream_of(launch)),
            "scales of a product");
    widen(args.a_quantized, desc.a_format, wide.a, launch);
    widen(args.b_quantized, desc.b_format, wide.b, launch);
    if (widens_bias(desc)) {
      static const ops::ConvertList list = convert_impls();
      const ops::ConvertDesc convert{.rows = 1, .cols = desc.n, .from = DType::kBF16, .to = kWide};
      ops::choose(list, convert, launch.device, "convert").run(convert, {.x = args.bias, .y = wide.bias}, launch);
    }
    const ops::Launch rest{launch.device, launch.workspace.subspan(static_cast<std::size_t>(at.rest)), launch.queue};
    impl(desc, launch.device).run(wide_desc(desc), wide, rest);
  }

  static void prepare(const GemmDesc& desc, const GemmArgs& args, const ops::Launch& scratch) {
    const auto& wide = impl(desc, scratch.device);
    if (wide.prepare != nullptr)
      wide.prepare(wide_desc(desc), wide_args(desc, args, scratch.workspace, places(desc, scratch.device)), scratch);
  }

  static ops::Impl<GemmDesc, GemmArgs> make() {
    return {.name = kWide == DType::kF32 ? "emulated.f32" : "emulated.bf16",
            .supports = supports,
            .workspace_bytes = workspace_bytes,
            .run = run,
            .kind = ops::EngineKind::kEmulated,
            .prepare = prepare};
  }
};

}  // namespace

ops::Impl<GemmDesc, GemmArgs> gemm_emulated_bf16() { return Emulated<DType::kBF16>::make(); }
ops::Impl<GemmDesc, GemmArgs> gemm_emulated_f32() { return Emulated<DType::kF32>::make(); }

}  // namespace ida::cuda
