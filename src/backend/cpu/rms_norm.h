// RMSNorm on the CPU (ops/rms_norm.h).
#pragma once
#include "ops/rms_norm.h"

namespace ida::cpu {

ops::RmsNormForwardList rms_norm_forward_impls();
ops::RmsNormBackwardList rms_norm_backward_impls();

}  // namespace ida::cpu
