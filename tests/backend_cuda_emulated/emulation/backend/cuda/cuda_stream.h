// Emulated: work is done when a call returns.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

#include "base/error.h"
#include "ops/impl_list.h"

namespace ida::cuda {

inline cudaStream_t stream_of(const ops::Launch&) { return nullptr; }
inline void check(cudaError_t error, std::string_view what) {
  if (error != cudaSuccess) fail_runtime("[cuda] {}: {}", what, cudaGetErrorString(error));
}

}  // namespace ida::cuda
