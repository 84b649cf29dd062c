#include "backend/cpu/op_kernel_functions.h"

namespace ida::cpu::IDA_ISA_NAMESPACE {

extern const OpKernels kOpKernels = {
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
    .rope = rope,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .cross_entropy = cross_entropy,
    .add_scaled = add_scaled,
    .add = add,
    .convert = convert,
    .optimizer = optimizer,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .quantize_read = quantize_read,
    .quantize_amax = quantize_amax,
    .quantize_mx_scales = quantize_mx_scales,
    .quantize_nv_scales = quantize_nv_scales,
    .quantize_encode = quantize_encode,
    .dequantize = dequantize,
};

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
