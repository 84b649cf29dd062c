#include "backend/cuda/kernel_archs.h"

#include <algorithm>
#include <array>

namespace ida::cuda {
namespace {
constexpr std::array kArchs = {IDA_CUDA_ARCH_LIST};  // from the build: 90, 100, 120
}

std::string kernel_archs() {
  std::string names;
  for (const int arch : kArchs) names += (names.empty() ? "sm_" : ", sm_") + std::to_string(arch) + "a";
  return names;
}

bool has_kernels_for(int sm) { return std::find(kArchs.begin(), kArchs.end(), sm) != kArchs.end(); }

}  // namespace ida::cuda
