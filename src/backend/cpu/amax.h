// The largest magnitude of a matrix, by the bits that formats::Amax counts.
#pragma once
#include "base/tensor.h"

namespace ida::cpu {

// Stores it in `amax`; nothing where that is null.
void store_amax(std::uint32_t* amax, const TensorView& matrix);

}  // namespace ida::cpu
