// A device as data: dispatch is a pure function of it, so a plan can be made for a card that is not there.
#pragma once
#include <cstdint>
#include <string>

namespace ida::runtime {

enum class BackendKind : std::uint8_t { kCpu, kCuda };

// Instruction sets of a CPU that kernels choose by.
struct CpuIsa {
  bool avx2 = false;    // AVX2 and FMA
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;  // usable: the kernel granted the tile state
};

struct DeviceInfo {
  BackendKind backend = BackendKind::kCpu;
  std::string name;
  std::int64_t memory_bytes = 0;  // physical memory of the device
  // What a process holds on a device of its own beside the planned arena: context, code, libraries. An expectation;
  // 0 where the arena is ordinary memory of the process.
  std::int64_t outside_arena_bytes = 0;
  int num_cores = 1;  // CPU cores the process may use, or SMs
  CpuIsa cpu;
  std::string onednn_version;               // CPU: "2.6.3", or empty where the library was not found
  int device_index = 0;                     // CUDA: which of the GPUs that the process sees
  int sm = 0;                               // CUDA: 90 for sm_90; 0 on a CPU
  std::int64_t shared_bytes_per_block = 0;  // CUDA: what a block may ask for
  std::string cublaslt_version;             // CUDA: "13.1.0", or empty where the library was not found
  int cudnn_version = 0;                    // CUDA: 91900 for 9.19.0, or 0 where the library was not found
};

}  // namespace ida::runtime
