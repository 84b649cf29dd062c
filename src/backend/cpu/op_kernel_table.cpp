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
};

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
