// Rotary position embedding on the CPU (ops/rope.h).
#pragma once
#include "ops/rope.h"

namespace ida::cpu {

ops::RopeList rope_impls();

}  // namespace ida::cpu
