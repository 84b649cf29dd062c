#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/attention.h"
#include "backend/cpu/cross_entropy.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/embedding.h"
#include "backend/cpu/fill.h"
#include "backend/cpu/gemm_blocked.h"
#include "backend/cpu/gemm_definition.h"
#include "backend/cpu/gemm_emulated.h"
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/optimizer.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/quantize.h"
#include "backend/cpu/rms_norm.h"
#include "backend/cpu/rope.h"
#include "backend/cpu/swiglu.h"

namespace ida::cpu {
namespace {

using GemmImpl = ops::Impl<ops::GemmDesc, ops::GemmArgs>;

ops::Refusal refuse_switched_off(const ops::GemmDesc&, const runtime::DeviceInfo&) {
  return {ops::RefusalKind::kSwitchedOff, "oneDNN was switched off"};
}

GemmImpl unless_switched_off(GemmImpl impl, bool use) {
  if (!use) impl.supports = refuse_switched_off;
  return impl;
}

}  // namespace

ops::GemmImplList gemm_impls(const runtime::DeviceInfo&, const CpuBackendOptions& options) {
  return {unless_switched_off(gemm_onednn_bf16(), options.use_onednn),
          gemm_blocked_bf16_widened(),
          gemm_blocked_f32(),
          unless_switched_off(gemm_onednn_f32(), options.use_onednn),
          gemm_emulated_bf16(options.use_onednn),
          gemm_emulated_f32(),
          gemm_definition()};
}

ops::Backend make_cpu_backend(const runtime::DeviceInfo& device, const CpuBackendOptions& options) {
  return {.gemm = gemm_impls(device, options),
          .rms_norm_forward = rms_norm_forward_impls(),
          .rms_norm_backward = rms_norm_backward_impls(),
          .rope = rope_impls(),
          .attention_forward = attention_forward_impls(),
          .attention_backward = attention_backward_impls(),
          .swiglu_forward = swiglu_forward_impls(),
          .swiglu_backward = swiglu_backward_impls(),
          .embedding_forward = embedding_forward_impls(),
          .embedding_backward = embedding_backward_impls(),
          .cross_entropy = cross_entropy_impls(),
          .add = add_impls(),
          .convert = convert_impls(),
          .bias_grad = bias_grad_impls(),
          .fill = fill_impls(),
          .sum_squares = sum_squares_impls(),
          .optimizer = optimizer_impls(),
          .quantize = quantize_impls(),
          .dequantize = dequantize_impls(),
          .pack = pack_impls()};
}

}  // namespace ida::cpu
