// SwiGLU on the CPU (ops/swiglu.h).
#pragma once
#include "ops/swiglu.h"

namespace ida::cpu {

ops::SwigluForwardList swiglu_forward_impls();
ops::SwigluBackwardList swiglu_backward_impls();

}  // namespace ida::cpu
