// The CUDA backend as the program sees it: finding a GPU, opening it, its implementation lists. A build without CUDA
// (backend/no_cuda) answers the same questions with a reason.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::cuda {

struct CudaSearch {
  std::optional<runtime::DeviceInfo> device;
  std::string reason;  // why there is none
};
// The first GPU that this build has code for. Never throws: a machine without a driver is an answer.
CudaSearch detect_cuda();

// `info` from detect_cuda().
std::unique_ptr<runtime::Device> open_cuda(const runtime::DeviceInfo& info);

// For every op its implementations, most preferred first.
ops::Backend make_cuda_backend(const runtime::DeviceInfo& device);

// What a GPU is, as data, for plans of cards that are not there: h100, h200, b200, rtx5090, rtx5070ti. Memory and
// multiprocessors by the vendor's data sheets. Null for other names and in a build without CUDA.
std::optional<runtime::DeviceInfo> known_device(std::string_view name);

// Libraries that were looked for: name, where it was found or why not, and what is lost without it.
struct LibraryReport {
  std::string name;
  std::string found;
  std::string without_it;
};
std::vector<LibraryReport> library_reports();

}  // namespace ida::cuda
