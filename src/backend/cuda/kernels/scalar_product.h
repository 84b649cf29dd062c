// One number on the device from up to three.
#pragma once
#include <cuda_runtime_api.h>

namespace ida::cuda {

// *out = *a * *b * *c in f32, from the left; a null factor is 1.
cudaError_t launch_scalar_product(const float* a, const float* b, const float* c, float* out, cudaStream_t stream);

}  // namespace ida::cuda
