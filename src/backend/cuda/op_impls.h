// The own kernels of the room as implementation lists, one function an op; every list ends with a kernel that takes any
// shape.
#pragma once
#include "ops/backend.h"

namespace ida::cuda {

ops::RmsNormForwardList rms_norm_forward_impls();
ops::RmsNormBackwardList rms_norm_backward_impls();
ops::RopeList rope_impls();
ops::SwigluForwardList swiglu_forward_impls();
ops::SwigluBackwardList swiglu_backward_impls();
ops::EmbeddingForwardList embedding_forward_impls();
ops::EmbeddingBackwardList embedding_backward_impls();
ops::CrossEntropyList cross_entropy_impls();
ops::AddList add_impls();
ops::ConvertList convert_impls();
ops::BiasGradList bias_grad_impls();
ops::FillList fill_impls();
ops::SumSquaresList sum_squares_impls();
ops::OptimizerList optimizer_impls();
ops::QuantizeList quantize_impls();
ops::DequantizeList dequantize_impls();
ops::PackList pack_impls();
ops::QuantizeList quantize_record_impls();
ops::QuantizeStepList quantize_step_impls();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_simt();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_emulated_bf16();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_emulated_f32();

}  // namespace ida::cuda
