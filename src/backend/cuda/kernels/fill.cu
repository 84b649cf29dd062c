// Compiled with --fmad=false: the bits are those of the CPU.
#include "backend/cuda/kernels/fill.h"
#include "backend/cuda/kernels/launch.h"
#include "base/rng.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) fill_kernel(Fill a) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t pairs = (a.size + 1) / 2;
  for (std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; pair < pairs; pair += stride) {
    float even = 0.0f;
    float odd = 0.0f;
    if (a.std_dev != 0.0f) {
      const NormalPair parts = normal_pair_parts(a.seed, a.stream, static_cast<std::uint64_t>(pair));
      const double radius = sqrt(parts.square);
      even = static_cast<float>(radius * parts.cosine);
      odd = static_cast<float>(radius * parts.sine);
    }
    a.y[2 * pair] = a.value + a.std_dev * even;
    if (2 * pair + 1 < a.size) a.y[2 * pair + 1] = a.value + a.std_dev * odd;
  }
}

}  // namespace

cudaError_t launch_fill(const Fill& args, cudaStream_t stream) {
  if (args.size == 0) return cudaSuccess;
  fill_kernel<<<grid_for((args.size + 1) / 2, kThreads), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace ida::cuda
