#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/scalar_product.h"

namespace ida::cuda {
namespace {

__global__ void scalar_product_kernel(const float* a, const float* b, const float* c, float* out) {
  *out = value_or_one(a) * value_or_one(b) * value_or_one(c);
}

}  // namespace

cudaError_t launch_scalar_product(const float* a, const float* b, const float* c, float* out, cudaStream_t stream) {
  scalar_product_kernel<<<1, 1, 0, stream>>>(a, b, c, out);
  return cudaGetLastError();
}

}  // namespace ida::cuda
