#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/fill_random.h"
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

// The finaliser of MurmurHash3 (Appleby, public domain): every bit of the position reaches every bit of the result.
__device__ std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

__global__ void __launch_bounds__(kThreads) fill_random_kernel(bf16* out, std::int64_t size) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < size; i += stride) {
    const auto bits = static_cast<std::int32_t>(mixed(static_cast<std::uint32_t>(i)));
    out[i] = from_float<bf16>(static_cast<float>(bits) * 0x1p-31f);
  }
}

}  // namespace

cudaError_t launch_fill_random(void* memory, std::int64_t size_bytes, cudaStream_t stream) {
  constexpr unsigned kBlocks = 1024;
  fill_random_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<bf16*>(memory), size_bytes / 2);
  return cudaGetLastError();
}

}  // namespace ida::cuda
