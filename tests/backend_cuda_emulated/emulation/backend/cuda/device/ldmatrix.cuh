// Emulated: four 8 x 8 matrices from the rows that the lanes address.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/fragment_maps.h"

namespace ida::cuda {

template <bool kTransposed>
void emulated_ldmatrix(std::uint32_t (&r)[4], std::uint32_t address) {
  struct Lane {
    std::uint32_t* r;
    std::uint32_t address;
  } lane{r, address};
  emulation::warp_collective(kTransposed ? "ldmatrix.trans" : "ldmatrix", &lane, [](void** lanes) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t tile[8][8];
      for (int row = 0; row < 8; ++row) {
        const Lane& owner = *static_cast<const Lane*>(lanes[matrix * 8 + row]);
        std::memcpy(tile[row], emulation::shared_bytes_at(owner.address, 16, 16), 16);
      }
      for (int i = 0; i < 32; ++i) {
        std::uint32_t packed = 0;
        for (int e = 0; e < 2; ++e) {
          const MatrixIndex at = ldmatrix_element(i, e);
          const std::uint32_t value = kTransposed ? tile[at.col][at.row] : tile[at.row][at.col];
          packed |= value << (16 * e);
        }
        static_cast<Lane*>(lanes[i])->r[matrix] = packed;
      }
    }
  });
}

inline void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t address) { emulated_ldmatrix<false>(r, address); }
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], std::uint32_t address) { emulated_ldmatrix<true>(r, address); }

}  // namespace ida::cuda
