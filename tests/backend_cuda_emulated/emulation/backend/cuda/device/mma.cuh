// Emulated: the product by the element maps of the PTX ISA, sums in f32.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/fragment_maps.h"
#include "formats/bf16.h"

namespace ida::cuda {

inline float emulated_half(std::uint32_t packed, int element) {
  return to_f32(bf16{static_cast<std::uint16_t>(packed >> (16 * element))});
}

inline void mma_m16n8k16_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Lane {
    float* d;
    const std::uint32_t* a;
    std::uint32_t b[2];
  } lane{d, a, {b0, b1}};
  emulation::warp_collective(__func__, &lane, [](void** lanes) {
    float a_tile[16][16], b_tile[16][8];
    for (int i = 0; i < 32; ++i) {
      const Lane& l = *static_cast<const Lane*>(lanes[i]);
      for (int e = 0; e < 2; ++e) {
        for (int r = 0; r < 4; ++r) {
          const MatrixIndex at = mma_a_index(i, r, e);
          a_tile[at.row][at.col] = emulated_half(l.a[r], e);
        }
        for (int r = 0; r < 2; ++r) {
          const MatrixIndex at = mma_b_index(i, r, e);
          b_tile[at.row][at.col] = emulated_half(l.b[r], e);
        }
      }
    }
    for (int i = 0; i < 32; ++i) {
      for (int r = 0; r < 4; ++r) {
        const MatrixIndex at = mma_c_index(i, r);
        float sum = static_cast<Lane*>(lanes[i])->d[r];
        for (int k = 0; k < 16; ++k) sum += a_tile[at.row][k] * b_tile[k][at.col];
        static_cast<Lane*>(lanes[i])->d[r] = sum;
      }
    }
  });
}

}  // namespace ida::cuda
