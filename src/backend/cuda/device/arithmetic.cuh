// Single instructions of arithmetic and conversion.
#pragma once
#include <cstdint>

namespace ida::cuda {

// 2^x, to 2 units in the last place, subnormal results flushed to zero. PTX ISA, "ex2"; sm_50.
__device__ __forceinline__ float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2(x), absolute error 2^-22 near 1 and relative 2^-22 elsewhere. PTX ISA, "lg2"; sm_50.
__device__ __forceinline__ float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, to 1 unit in the last place. PTX ISA, "rcp"; sm_50. A division would bring a subroutine and its registers.
__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two f32 rounded to nearest even, `low` in the lower half. PTX ISA, "cvt" (.rn.bf16x2.f32); sm_80.
__device__ __forceinline__ std::uint32_t cvt_bf16x2(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace ida::cuda
