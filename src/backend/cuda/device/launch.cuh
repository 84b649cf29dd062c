// A launch of a kernel template from the unit that defines it.
#pragma once
#include <cuda_runtime_api.h>

namespace ida::cuda {

// Launches kernel(params) and returns the error of the launch. A kernel that takes more than 48 KiB of shared memory, its
// static variables included, has to be told so first.
template <typename Params>
cudaError_t launch_kernel(void (*kernel)(Params), dim3 grid, int threads, int shared_bytes, cudaStream_t stream,
                          const Params& params) {
  if (shared_bytes > 32 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error != cudaSuccess) return error;
  }
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<std::size_t>(shared_bytes), stream>>>(params);
  return cudaGetLastError();
}

}  // namespace ida::cuda
