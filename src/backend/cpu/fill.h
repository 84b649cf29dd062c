// Initial weights on the CPU (ops/fill.h).
#pragma once
#include "ops/fill.h"

namespace ida::cpu {

ops::FillList fill_impls();

}  // namespace ida::cpu
