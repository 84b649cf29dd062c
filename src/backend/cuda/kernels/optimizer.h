// One optimizer step over one tensor (ops/optimizer.h).
#pragma once
#include "backend/cuda/kernels/launch.h"

namespace ida::cuda {

struct OptimizerStep {
  std::int64_t size = 0;
  bool decay = true;
  const float* scalars = nullptr;  // ops::OptimizerScalars, in device memory
  const float* grad = nullptr;
  float* master = nullptr;
  void* m = nullptr;       // state type
  void* v = nullptr;       // state type; null for Lion
  void* weight = nullptr;  // weight type; may be master
};
cudaError_t launch_adamw(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream);
cudaError_t launch_lion(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream);

}  // namespace ida::cuda
