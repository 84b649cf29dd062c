// Initial weights (ops/fill.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace ida::cuda {

struct Fill {
  float* y = nullptr;
  std::int64_t size = 0;
  float value = 0.0f;
  float std_dev = 0.0f;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};
cudaError_t launch_fill(const Fill& args, cudaStream_t stream);

}  // namespace ida::cuda
