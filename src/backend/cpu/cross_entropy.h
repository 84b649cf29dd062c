// Cross-entropy on the CPU (ops/cross_entropy.h).
#pragma once
#include "ops/cross_entropy.h"

namespace ida::cpu {

ops::CrossEntropyList cross_entropy_impls();

}  // namespace ida::cpu
