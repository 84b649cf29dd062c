// The stream of a launch, and errors of the CUDA runtime as ours.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

#include "base/error.h"

namespace ida::cuda {

// Throws Error(kRuntime) naming `what` unless `status` is success.
inline void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) fail_runtime("[cuda] {} failed: {}", what, cudaGetErrorString(status));
}

}  // namespace ida::cuda
