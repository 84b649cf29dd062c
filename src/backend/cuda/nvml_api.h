// What this process holds on a GPU by the driver's books, through NVML, which comes with the driver. Its header is not in
// the toolkit: the one structure used here is declared below.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ida::cuda {

// nvmlProcessInfo_t of NVML 11 and newer.
struct NvmlProcess {
  unsigned int pid = 0;
  unsigned long long used_bytes = 0;  // all ones: the driver does not tell
  unsigned int gpu_instance = 0;
  unsigned int compute_instance = 0;
};

// Null where the process is not in the list (in a container it may stand there under another number) or has no figure.
std::optional<std::int64_t> bytes_of_process(std::span<const NvmlProcess> processes, unsigned int pid);

// Of this process on a device by CUDA's number, context and libraries included. Null where NVML is absent or cannot tell.
std::optional<std::int64_t> own_device_bytes(int device);

const std::string& nvml_search_report();

}  // namespace ida::cuda
