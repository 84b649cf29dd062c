// One optimizer step over the tensors of flat buffers (ops/optimizer.h).
#pragma once
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/tensor_ranges.h"

namespace ida::cuda {

struct OptimizerStep {
  const TensorRange* ranges = nullptr;  // [num_tensors]
  std::int64_t num_tensors = 0;
  std::int64_t num_blocks = 0;
  const float* scalars = nullptr;  // ops::OptimizerScalars, in device memory
  const float* grad = nullptr;
  float* master = nullptr;
  void* m = nullptr;           // state type
  void* v = nullptr;           // state type; null for Lion
  void* weight = nullptr;      // weight type; may be master
  bool bases_aligned = false;  // to 16 bytes; set by the launch functions
};
cudaError_t launch_adamw(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream);
cudaError_t launch_lion(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream);

}  // namespace ida::cuda
