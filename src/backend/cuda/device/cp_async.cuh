// Copies from global to shared memory that run beside the arithmetic. PTX ISA, "cp.async"; sm_80.
#pragma once
#include <cstdint>

namespace ida::cuda {

// Copies 16 bytes, past the L1 cache; writes zeros, and reads nothing, where `valid` is false.
__device__ __forceinline__ void cp_async_16(std::uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
               "r"(valid ? 16 : 0)
               : "memory");
}

// The same for 4 or 8 bytes, through the L1 cache.
template <int kBytes>
__device__ __forceinline__ void cp_async_small(std::uint32_t shared, const void* global, bool valid) {
  static_assert(kBytes == 4 || kBytes == 8);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
               "n"(kBytes), "r"(valid ? kBytes : 0)
               : "memory");
}

// Closes a group: the copies this thread has issued since the last. PTX ISA, "cp.async.commit_group".
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of this thread but the kPending latest. PTX ISA, "cp.async.wait_group".
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Waits for the copies this thread has issued; other threads' copies need a barrier after it.
// PTX ISA, "cp.async.wait_all".
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace ida::cuda
