// cpu.definition: what a matrix product is. Any desc, any strides, operands f32 or bf16.
// The sum over k runs in f64 in ascending order (products of f32 are exact there) and is rounded once to f32; then, in
// f32 as every implementation does, alpha * sum (+ c) (+ bias), rounded once to C's type.
#pragma once
#include "ops/gemm.h"

namespace ida::cpu {

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_definition();

}  // namespace ida::cpu
