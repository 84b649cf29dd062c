// Products of quantised operands on the CPU: the codes and scales that the pack wrote are widened and multiplied; the
// tensors' scales enter as alpha.
#pragma once
#include "ops/gemm.h"

namespace ida::cpu {

// emulated.bf16: MX and NVFP4, whose values under their block scales bf16 holds exactly.
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_emulated_bf16(bool use_onednn);
// emulated.f32: FP8 with f32 scales; element * scale is rounded to f32.
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_emulated_f32();

}  // namespace ida::cpu
