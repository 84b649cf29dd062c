// Emulated: exact where the instruction approximates.
#pragma once
#include <cuda_runtime_api.h>

#include "formats/bf16.h"

namespace ida::cuda {

inline float ex2_approx(float x) { return std::exp2(x); }
inline float lg2_approx(float x) { return std::log2(x); }
inline float rcp_approx(float x) { return 1.0f / x; }
inline std::uint32_t cvt_bf16x2(float low, float high) {
  return static_cast<std::uint32_t>(bf16_from_f32(high).bits) << 16 | bf16_from_f32(low).bits;
}

}  // namespace ida::cuda
