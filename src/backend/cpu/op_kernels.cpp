#include "backend/cpu/op_kernels.h"

#include "backend/cpu/isa.h"

namespace ida::cpu {

const OpKernels& op_kernels(const runtime::CpuIsa& isa) {
  if constexpr (kHasIsaCopies) {
    if (isa_level(isa) == IsaLevel::kAvx512) return isa_avx512::kOpKernels;
    if (isa_level(isa) == IsaLevel::kAvx2) return isa_avx2::kOpKernels;
  }
  return isa_baseline::kOpKernels;
}

}  // namespace ida::cpu
