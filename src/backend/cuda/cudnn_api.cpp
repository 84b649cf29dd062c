#include "backend/cuda/cudnn_api.h"

#include <array>
#include <optional>

#include "backend/cuda/shared_library.h"
#include "base/error.h"

namespace ida::cuda {
namespace {

const LibrarySearch kSearch = {.soname = "libcudnn.so.9",
                               .environment = "IDA_CUDNN_LIBRARY",
                               .wheel_folders = {"nvidia/cudnn/lib"},
                               .folders = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu"},
                               .version_function = "cudnnGetVersion",
                               .min_version = kOldestCudnn};

struct Found {
  std::optional<CudnnApi> api;
  std::string report;
};

Found find() {
  SharedLibrary library = open_library(kSearch);
  CudnnApi api;
  const bool complete = SymbolLoader(library)
                            .load("cudnnGetVersion", api.get_version)
                            .load("cudnnGetErrorString", api.get_error_string)
                            .load("cudnnGetLastErrorString", api.get_last_error_string)
                            .load("cudnnCreate", api.create)
                            .load("cudnnDestroy", api.destroy)
                            .load("cudnnSetStream", api.set_stream)
                            .load("cudnnBackendCreateDescriptor", api.create_descriptor)
                            .load("cudnnBackendDestroyDescriptor", api.destroy_descriptor)
                            .load("cudnnBackendSetAttribute", api.set_attribute)
                            .load("cudnnBackendGetAttribute", api.get_attribute)
                            .load("cudnnBackendFinalize", api.finalize)
                            .load("cudnnBackendExecute", api.execute)
                            .complete();
  if (!complete) return {std::nullopt, library.reason};
  api.version = static_cast<int>(api.get_version());
  api.version_string = fmt::format("{}.{}.{}", api.version / 10000, api.version / 100 % 100, api.version % 100);
  api.path = library.path;
  return {api, fmt::format("version {}, {}", api.version_string, api.path)};
}

const Found& found() {
  static const Found result = find();
  return result;
}

}  // namespace

const CudnnApi* cudnn() { return found().api ? &*found().api : nullptr; }
const std::string& cudnn_search_report() { return found().report; }

void check_cudnn(const CudnnApi& api, cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> message{};
  api.get_last_error_string(message.data(), message.size());
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  fail_runtime("[cudnn] {} failed: {}: {}", call, api.get_error_string(status), message.data());
}

}  // namespace ida::cuda
