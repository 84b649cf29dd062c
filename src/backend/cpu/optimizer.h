// AdamW and Lion steps on the CPU (ops/optimizer.h).
#pragma once
#include "ops/optimizer.h"

namespace ida::cpu {

ops::OptimizerList optimizer_impls();

}  // namespace ida::cpu
