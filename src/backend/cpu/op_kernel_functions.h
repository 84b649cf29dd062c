// Declarations of the functions that fill OpKernels, for the sources of one instruction set.
#pragma once
#include "backend/cpu/op_kernels.h"

namespace ida::cpu::IDA_ISA_NAMESPACE {

void rms_norm_forward(const ops::RmsNormDesc& desc, const ops::RmsNormForwardArgs& args, Index begin, Index end);
void rms_norm_backward(const ops::RmsNormDesc& desc, const ops::RmsNormBackwardArgs& args, Index begin, Index end,
                       float* grad_w_sum);
void rope(const ops::RopeDesc& desc, const ops::RopeArgs& args, Index begin, Index end);
void swiglu_forward(const ops::SwigluDesc& desc, const ops::SwigluForwardArgs& args, Index begin, Index end);
void swiglu_backward(const ops::SwigluDesc& desc, const ops::SwigluBackwardArgs& args, Index begin, Index end);
void cross_entropy(const ops::CrossEntropyDesc& desc, const ops::CrossEntropyArgs& args, Index begin, Index end);
void add_scaled(float* to, const void* from, DType from_dtype, float scale, Index size);
void add(DType dtype, const void* a, const void* b, void* y, Index size);
void convert(DType from, DType to, const void* x, void* y, Index size);
void optimizer(const ops::OptimizerDesc& desc, const ops::OptimizerArgs& args, bool decay, Index begin, Index end);
void attention_forward(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                       const AttentionQueryItem& item, float* scratch);
void attention_backward(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
                        const AttentionBackwardItem& item, float* scratch);

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
