// Elements of RMSNorm, SwiGLU and their backwards: the same bits in an op's own kernel and where it is fused with another.
// Sums of products are written as fma, so that no compiler chooses.
#pragma once
#include "backend/cuda/device/arithmetic.cuh"
#include "backend/cuda/device/convert.cuh"
#include "backend/cuda/device/vec.cuh"

namespace ida::cuda {

__device__ inline float rms_norm_value(float x, float rstd, float w) { return x * rstd * w; }

// `mean`: of w * grad_y * xhat over the row. `old` is added before the one rounding.
__device__ inline float rms_norm_grad(float grad_y, float x, float w, float rstd, float mean, float old) {
  return fmaf(rstd, fmaf(w, grad_y, -(x * rstd * mean)), old);
}

// 1 / (1 + 2^(-z log2(e))). An exact exponential and division would take more of the multiprocessor than the bytes of an
// element do of memory. ex2 and rcp are off by 2 and 1 units in the last place and rounding z log2(e) by |z| 2^-24 of the
// exponential, which counts for little where that is small beside 1 and, where z is far below 0, is 1e-6 of a y near 0.
__device__ inline float sigmoid(float z) {
  constexpr float kLog2E = 1.4426950408889634f;
  return rcp_approx(1.0f + ex2_approx(-kLog2E * z));
}

__device__ inline float swiglu_value(float gate, float up) { return gate * sigmoid(gate) * up; }

// d silu(z) / dz = s (1 + z (1 - s)), s = sigmoid(z).
__device__ inline float swiglu_grad_gate(float grad_y, float gate, float up) {
  const float s = sigmoid(gate);
  return grad_y * up * s * fmaf(gate, 1.0f - s, 1.0f);
}
__device__ inline float swiglu_grad_up(float grad_y, float gate) { return grad_y * gate * sigmoid(gate); }

// Raises a tensor's amax by the largest magnitude that each lane of a warp has seen. Most warps find theirs below it.
__device__ inline void raise_amax(std::uint32_t* amax, float most) {
  const std::uint32_t bits = warp_max_u32(std::bit_cast<std::uint32_t>(most) & 0x7FFFFFFFu);
  if (threadIdx.x % kWarpSize == 0 && bits > *static_cast<volatile const std::uint32_t*>(amax)) atomicMax(amax, bits);
}

}  // namespace ida::cuda
