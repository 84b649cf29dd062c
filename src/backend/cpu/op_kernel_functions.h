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
void quantize_read(const TileSource& source, DType tile_dtype, void* tile);
void quantize_amax(const Tile& tile, Index block, std::uint32_t* amax);
void quantize_mx_scales(const std::uint32_t* amax, Index size, const formats::QuantFormat& format, std::uint8_t* scales);
void quantize_nv_scales(const std::uint32_t* amax, Index size, float tensor_scale, std::uint8_t* scales);
void quantize_encode(const Tile& tile, const TileEncoding& encoding);
void dequantize(const DequantizeRow& row, DType dtype, void* y);

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
