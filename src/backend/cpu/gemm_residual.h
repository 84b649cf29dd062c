// The residual stream's part of a product: C += R after the product was rounded to C's type.
#pragma once
#include "ops/gemm.h"

namespace ida::cpu {

// Nothing where the desc has no residual.
void add_residual(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch);

}  // namespace ida::cpu
