// cuDNN 9, opened at run time: the functions used here, its version, and why there is none where there is none.
#pragma once
#include <cudnn_graph.h>

#include <string>
#include <string_view>

namespace ida::cuda {

// Before: other rules for lengths that are no multiple of 128.
inline constexpr int kOldestCudnn = 91600;

struct CudnnApi {
  decltype(&::cudnnGetVersion) get_version = nullptr;
  decltype(&::cudnnGetErrorString) get_error_string = nullptr;
  decltype(&::cudnnGetLastErrorString) get_last_error_string = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&::cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&::cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;

  int version = 0;             // 91900
  std::string version_string;  // "9.19.0"
  std::string path;            // the file that was opened
};

// The library of this process, looked for at the first call; null where none serves.
const CudnnApi* cudnn();
// What the search found: version and path, or why each candidate failed.
const std::string& cudnn_search_report();

// Throws Error(kRuntime) with the call, the status and cuDNN's own last message unless `status` is success.
void check_cudnn(const CudnnApi& api, cudnnStatus_t status, std::string_view call);

}  // namespace ida::cuda
