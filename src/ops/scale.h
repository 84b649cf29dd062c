// Factors that change from one use of an op to the next stand in device memory, so that work recorded once can be run
// again.
#pragma once

namespace ida::ops {

// For backends whose device memory is the host's: the factor, 1 where there is none. Always inlined, since the CPU's
// kernels are compiled once for each instruction set.
[[gnu::always_inline]] inline float value_or_one(const float* factor) { return factor == nullptr ? 1.0f : *factor; }

}  // namespace ida::ops
