#include "backend/cuda/cupti_api.h"

#include <optional>

#include "backend/cuda/shared_library.h"

namespace ida::cuda {
namespace {

const LibrarySearch kSearch = {
    .soname = "libcupti.so.13",
    .environment = "IDA_CUPTI_LIBRARY",
    .wheel_folders = {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"},
    .folders = {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/lib"}};

struct Found {
  std::optional<CuptiApi> api;
  std::string report;
};

Found find() {
  SharedLibrary library = open_library(kSearch);
  CuptiApi api;
  const bool complete = SymbolLoader(library)
                            .load("cuptiGetVersion", api.get_version)
                            .load("cuptiGetResultString", api.get_result_string)
                            .load("cuptiActivityRegisterCallbacks", api.activity_register_callbacks)
                            .load("cuptiActivityEnable", api.activity_enable)
                            .load("cuptiActivityDisable", api.activity_disable)
                            .load("cuptiActivityFlushAll", api.activity_flush_all)
                            .load("cuptiActivityGetNextRecord", api.activity_get_next_record)
                            .load("cuptiActivityGetNumDroppedRecords", api.activity_get_num_dropped_records)
                            .complete();
  if (!complete) return {std::nullopt, library.reason};
  std::uint32_t version = 0;
  api.get_version(&version);
  api.version_string = std::to_string(version);
  api.path = library.path;
  return {api, "version " + api.version_string + ", " + api.path};
}

const Found& found() {
  static const Found result = find();
  return result;
}

}  // namespace

const CuptiApi* cupti() { return found().api ? &*found().api : nullptr; }
const std::string& cupti_search_report() { return found().report; }

}  // namespace ida::cuda
