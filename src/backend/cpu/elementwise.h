// Add, type conversion, bias gradient and sum of squares on the CPU (ops/elementwise.h).
#pragma once
#include "ops/elementwise.h"

namespace ida::cpu {

ops::AddList add_impls();
ops::ConvertList convert_impls();
ops::BiasGradList bias_grad_impls();
ops::SumSquaresList sum_squares_impls();

}  // namespace ida::cpu
