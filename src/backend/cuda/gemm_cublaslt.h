// Matrix products by cuBLASLt: f32 without TF32, bf16 with f32 sums.
#pragma once
#include "ops/gemm.h"

namespace ida::cuda {

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32();

}  // namespace ida::cuda
