#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/scalar_product.h"

namespace ida::cuda {
namespace {

struct Factors {
  const float *a, *b, *c;
  float* out;
};
__global__ void scalar_product_kernel(Factors f) { *f.out = value_or_one(f.a) * value_or_one(f.b) * value_or_one(f.c); }

}  // namespace

cudaError_t launch_scalar_product(const float* a, const float* b, const float* c, float* out, cudaStream_t stream) {
  return launch_kernel(scalar_product_kernel, dim3(1), 1, 0, stream, Factors{a, b, c, out});
}

}  // namespace ida::cuda
