// A CUDA device in host memory, for tests of kernels on machines without a GPU: enough of the runtime and of the device
// language for the kernels under test. A block runs at a time, its threads as fibers, see emulator.h. Copies in flight
// poison their target until they are waited for, and shared memory starts as NaN, so a missing wait or barrier shows.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "emulator.h"

// ---- runtime ----

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorUnknown = 999 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** pointer, std::size_t size_bytes) {
  *pointer = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind) {
  std::memcpy(to, from, size_bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "emulated"; }

// ---- device language ----

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct dim3 {
  explicit dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};
struct uint4 {
  std::uint32_t x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};

inline dim3 blockIdx, blockDim, gridDim;
struct EmulatedThreadIdx {
  struct X {
    operator unsigned() const { return static_cast<unsigned>(ida::emulation::current_thread()); }
  } x;
};
inline constexpr EmulatedThreadIdx threadIdx;

inline void __syncthreads() { ida::emulation::block_barrier(); }
inline void __syncwarp() {
  ida::emulation::warp_collective(__func__, nullptr, [](void**) {});
}

template <typename T>
T emulated_shuffle(const char* name, T value, int source) {
  struct Lane {
    T value, result;
    int source;
  } lane{value, value, source};
  ida::emulation::warp_collective(name, &lane, [](void** lanes) {
    for (int i = 0; i < 32; ++i) {
      Lane& mine = *static_cast<Lane*>(lanes[i]);
      if (mine.source >= 0) mine.result = static_cast<Lane*>(lanes[mine.source % 32])->value;
    }
  });
  return lane.result;
}
inline int emulated_lane() { return ida::emulation::current_thread() % 32; }
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulated_shuffle(__func__, value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated_shuffle(__func__, value, emulated_lane() ^ mask);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned delta) {
  return emulated_shuffle(__func__, value, emulated_lane() - static_cast<int>(delta));
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  struct Lane {
    bool predicate;
    unsigned result;
  } lane{predicate, 0};
  ida::emulation::warp_collective(__func__, &lane, [](void** lanes) {
    unsigned bits = 0;
    for (int i = 0; i < 32; ++i) bits |= static_cast<Lane*>(lanes[i])->predicate ? 1u << i : 0u;
    for (int i = 0; i < 32; ++i) static_cast<Lane*>(lanes[i])->result = bits;
  });
  return lane.result;
}
// Rounded operation by operation: this is compiled without contraction.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int atomicAdd(int* target, int value) {
  const int old = *target;
  *target += value;
  return old;
}
inline std::uint32_t atomicMax(std::uint32_t* target, std::uint32_t value) {
  const std::uint32_t old = *target;
  if (value > old) *target = value;
  return old;
}
