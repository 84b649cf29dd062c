// Matrix products by cuBLASLt: f32 without TF32, bf16 with f32 sums, FP8 with scales of a tensor, of rows (Hopper), or of
// 1 x 128 by 128 x 128 or 1 x 128 (Hopper).
#pragma once
#include "ops/gemm.h"

namespace ida::cuda {

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_tensor();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_row();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_fp8_block();

}  // namespace ida::cuda
