// Architectures that this build's kernels were compiled for.
#pragma once
#include <string>

namespace ida::cuda {

// "sm_90a, sm_100a, sm_120a".
std::string kernel_archs();
// Machine code of an `a` target runs on exactly that compute capability.
bool has_kernels_for(int sm);

}  // namespace ida::cuda
