#include "backend/cuda/nvml_api.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "backend/cuda/shared_library.h"

namespace ida::cuda {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

struct Nvml {
  int (*init)() = nullptr;
  int (*device_by_bus_id)(const char* bus_id, void** device) = nullptr;
  int (*processes)(void* device, unsigned int* count, NvmlProcess* infos) = nullptr;
  std::string report;
  bool usable = false;
};

Nvml open_nvml() {
  SharedLibrary library =
      open_library({.soname = "libnvidia-ml.so.1", .environment = "IDA_NVML_LIBRARY", .wheel_folders = {}, .folders = {}});
  Nvml nvml;
  const bool complete = SymbolLoader(library)
                            .load("nvmlInit_v2", nvml.init)
                            .load("nvmlDeviceGetHandleByPciBusId_v2", nvml.device_by_bus_id)
                            .load("nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes)
                            .complete();
  nvml.report = complete ? library.path : library.reason;
  if (!complete) return nvml;
  const int status = nvml.init();
  nvml.usable = status == kSuccess;
  if (!nvml.usable) nvml.report += ": nvmlInit answers " + std::to_string(status);
  return nvml;
}

const Nvml& nvml() {
  static const Nvml opened = open_nvml();
  return opened;
}

}  // namespace

std::optional<std::int64_t> bytes_of_process(std::span<const NvmlProcess> processes, unsigned int pid) {
  for (const NvmlProcess& process : processes) {
    if (process.pid == pid && process.used_bytes != ~0ULL) return static_cast<std::int64_t>(process.used_bytes);
  }
  return std::nullopt;
}

std::optional<std::int64_t> own_device_bytes(int device) {
  std::array<char, 32> bus_id{};
  void* handle = nullptr;
  if (!nvml().usable || cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), device) != cudaSuccess ||
      nvml().device_by_bus_id(bus_id.data(), &handle) != kSuccess) {
    return std::nullopt;
  }
  std::vector<NvmlProcess> processes(64);
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto count = static_cast<unsigned int>(processes.size());
    const int status = nvml().processes(handle, &count, processes.data());
    processes.resize(count);
    if (status == kSuccess) return bytes_of_process(processes, static_cast<unsigned int>(getpid()));
    if (status != kInsufficientSize) break;
  }
  return std::nullopt;
}

const std::string& nvml_search_report() { return nvml().report; }

}  // namespace ida::cuda
