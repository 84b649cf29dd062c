// The CUDA backend of a build without CUDA: there is no GPU, and here is why.
#include "backend/cuda/cuda_backend.h"
#include "base/error.h"

namespace ida::cuda {

CudaSearch detect_cuda() {
  return {.device = std::nullopt, .reason = "this build has no CUDA backend; build with `make CUDA=1 build`"};
}
std::unique_ptr<runtime::Device> open_cuda(const runtime::DeviceInfo&) { fail_gate("[device] {}", detect_cuda().reason); }
ops::Backend make_cuda_backend(const runtime::DeviceInfo&) { fail_gate("[device] {}", detect_cuda().reason); }
std::optional<runtime::DeviceInfo> known_device(std::string_view) { return std::nullopt; }
std::vector<LibraryReport> library_reports() { return {}; }

}  // namespace ida::cuda
