// Loads of 8 x 8 matrices of 16-bit elements from shared memory into mma fragments.
#pragma once
#include <cstdint>

namespace ida::cuda {

// Four matrices; `address` is the lane's row in shared memory, 16 bytes aligned. PTX ISA, "ldmatrix" (.x4); sm_75.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The same, each matrix transposed. PTX ISA, "ldmatrix" (.x4.trans); sm_75.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace ida::cuda
