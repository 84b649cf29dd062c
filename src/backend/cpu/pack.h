// Packs on the CPU (ops/pack.h).
#pragma once
#include "ops/pack.h"

namespace ida::cpu {

ops::PackList pack_impls();

}  // namespace ida::cpu
