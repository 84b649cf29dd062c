#include "backend/cpu/gemm_emulated.h"

#include "backend/cpu/elementwise.h"
#include "backend/cpu/gemm_blocked.h"
#include "backend/cpu/gemm_definition.h"
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/quantize.h"

namespace ida::cpu {
namespace {

using ops::GemmArgs;
using ops::GemmDesc;
using ops::Launch;
using runtime::DeviceInfo;

constexpr std::int64_t kAlignment = 256;

enum class Wide : std::uint8_t { kBf16, kBf16WithoutOnednn, kF32 };

const ops::GemmImplList& wide_list(Wide wide) {
  static const ops::GemmImplList bf16 = {gemm_onednn_bf16(), gemm_blocked_bf16_widened(), gemm_definition()};
  static const ops::GemmImplList own_bf16 = {gemm_blocked_bf16_widened(), gemm_definition()};
  static const ops::GemmImplList f32 = {gemm_blocked_f32(), gemm_definition()};
  return wide == Wide::kBf16 ? bf16 : wide == Wide::kF32 ? f32 : own_bf16;
}

template <Wide kWide>
struct Emulated {
  static constexpr DType kDType = kWide == Wide::kF32 ? DType::kF32 : DType::kBF16;

  static GemmDesc wide_desc(GemmDesc desc) {
    desc.a_format = {};
    desc.b_format = {};
    desc.a_dtype = kDType;
    desc.b_dtype = kDType;
    desc.fast_accumulation = false;
    return desc;
  }
  static const ops::Impl<GemmDesc, GemmArgs>& impl(const GemmDesc& desc, const DeviceInfo& device) {
    return ops::choose(wide_list(kWide), wide_desc(desc), device, "gemm");
  }

  static ops::Refusal supports(const GemmDesc& desc, const DeviceInfo&) {
    if (const ops::Refusal refusal = ops::refuse_quantized_operands(desc)) return refusal;
    const bool f32_scales = formats::has_f32_scales(desc.a_format.grid) || formats::has_f32_scales(desc.b_format.grid);
    if (kWide != Wide::kF32 && f32_scales)
      return {ops::RefusalKind::kDType, "bf16 does not hold elements under f32 scales exactly"};
    return ops::kAccepted;
  }

  static std::int64_t padded_bytes(std::int64_t rows, std::int64_t k) {
    return (rows * k * dtype_size_bytes(kDType) + kAlignment - 1) / kAlignment * kAlignment;
  }
  static std::int64_t workspace_bytes(const GemmDesc& desc, const DeviceInfo& device) {
    const auto& wide = impl(desc, device);
    return padded_bytes(desc.m, desc.k) + padded_bytes(desc.n, desc.k) + (widens_bias(desc) ? padded_bytes(1, desc.n) : 0) +
           (wide.workspace_bytes != nullptr ? wide.workspace_bytes(wide_desc(desc), device) : 0);
  }
  static bool widens_bias(const GemmDesc& desc) { return desc.has_bias && kDType != DType::kBF16; }

  static TensorView widen(const ops::QuantizedView& x, const formats::QuantFormat& format, std::int64_t rows,
                          std::int64_t k, std::byte* memory, const Launch& launch) {
    static const ops::DequantizeList list = dequantize_impls();
    const TensorView y{memory, kDType, rows, k, k};
    const ops::DequantizeDesc desc{.rows = rows,
                                   .cols = k,
                                   .format = format,
                                   .layout = formats::ScaleLayout::kProduct,
                                   .dtype = kDType,
                                   .with_tensor_scale = false};
    ops::choose(list, desc, launch.device, "dequantize").run(desc, {.x = x, .y = y}, launch);
    return y;
  }

  static void run(const GemmDesc& desc, const GemmArgs& args, const Launch& launch) {
    std::byte* b = launch.workspace.data() + padded_bytes(desc.m, desc.k);
    std::byte* rest = b + padded_bytes(desc.n, desc.k);
    const float alpha = ops::value_or_one(args.alpha) * ops::value_or_one(args.a_quantized.tensor_scale) *
                        ops::value_or_one(args.b_quantized.tensor_scale);
    GemmArgs wide = args;
    wide.a = widen(args.a_quantized, desc.a_format, desc.m, desc.k, launch.workspace.data(), launch);
    wide.b = widen(args.b_quantized, desc.b_format, desc.n, desc.k, b, launch);
    wide.alpha = &alpha;
    if (widens_bias(desc)) {
      static const ops::ConvertList list = convert_impls();
      const ops::ConvertDesc convert{.rows = 1, .cols = desc.n, .from = DType::kBF16, .to = kDType};
      wide.bias = {rest, kDType, 1, desc.n, desc.n};
      ops::choose(list, convert, launch.device, "convert").run(convert, {.x = args.bias, .y = wide.bias}, launch);
      rest += padded_bytes(1, desc.n);
    }
    const auto used = static_cast<std::size_t>(rest - launch.workspace.data());
    impl(desc, launch.device).run(wide_desc(desc), wide, {launch.device, launch.workspace.subspan(used), launch.queue});
  }

  static ops::Impl<GemmDesc, GemmArgs> make() {
    return {.name = kWide == Wide::kF32 ? "emulated.f32" : "emulated.bf16",
            .supports = supports,
            .workspace_bytes = workspace_bytes,
            .run = run,
            .kind = ops::EngineKind::kEmulated};
  }
};

}  // namespace

ops::Impl<GemmDesc, GemmArgs> gemm_emulated_bf16(bool use_onednn) {
  return use_onednn ? Emulated<Wide::kBf16>::make() : Emulated<Wide::kBf16WithoutOnednn>::make();
}
ops::Impl<GemmDesc, GemmArgs> gemm_emulated_f32() { return Emulated<Wide::kF32>::make(); }

}  // namespace ida::cpu
