// Emulated: the blocks of a grid one after the other.
#pragma once
#include <cuda_runtime_api.h>

namespace ida::cuda {

template <typename Params>
cudaError_t launch_kernel(void (*kernel)(Params), dim3 grid, int threads, int shared_bytes, cudaStream_t,
                          const Params& params) {
  struct Context {
    void (*kernel)(Params);
    const Params& params;
  } context{kernel, params};
  gridDim = grid;
  blockDim = dim3(static_cast<unsigned>(threads));
  for (unsigned i = 0; i < grid.x * grid.y; ++i) {
    blockIdx = dim3(i % grid.x, i / grid.x);
    emulation::run_block(
        threads, shared_bytes, [](void* c) { static_cast<Context*>(c)->kernel(static_cast<Context*>(c)->params); },
        &context);
  }
  return cudaSuccess;
}

}  // namespace ida::cuda
