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
//   bf16 operands: cpu.onednn.bf16 (AMX only: 2 to 4 times the widened form there), cpu.blocked.bf16_widened;
//   f32 operands: cpu.blocked.f32, then cpu.onednn.f32: equal within the noise on Zen 3 (AVX2) and Sapphire Rapids
//   (AVX-512) at training shapes, while the own form is 2 to 10 times as fast at decode shapes (few rows);
//   last the definition.
ops::GemmImplList gemm_impls(const runtime::DeviceInfo& device, const CpuBackendOptions& options = {});

}  // namespace ida::cpu
