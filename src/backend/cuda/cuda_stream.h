// The stream that an op's work goes to, and the check of CUDA calls.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

#include "base/error.h"
#include "ops/impl_list.h"

namespace ida::cuda {

cudaStream_t stream_of(const ops::Launch& launch);

inline void check(cudaError_t error, std::string_view what) {
  if (error != cudaSuccess) fail_runtime("[cuda] {}: {}", what, cudaGetErrorString(error));
}

}  // namespace ida::cuda
