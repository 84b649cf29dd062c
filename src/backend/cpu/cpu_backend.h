// The CPU backend: for every op its implementations, most preferred first.
#pragma once
#include "ops/backend.h"
#include "runtime/device_info.h"

namespace ida::cpu {

struct CpuBackendOptions {
  bool use_onednn = true;  // false: its engines refuse with kSwitchedOff
};

ops::Backend make_cpu_backend(const runtime::DeviceInfo& device, const CpuBackendOptions& options = {});

// The list of matrix products alone. Order:
//   bf16 operands: cpu.onednn.bf16 (AMX only), cpu.blocked.bf16_widened;
//   f32 operands: the own form or oneDNN, whichever was measured faster on the instruction set;
//   last the definition.
ops::GemmImplList gemm_impls(const runtime::DeviceInfo& device, const CpuBackendOptions& options = {});

}  // namespace ida::cpu
