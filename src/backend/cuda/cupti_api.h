// CUPTI of CUDA 13, opened at run time: the activity records of kernels.
#pragma once
#include <cupti.h>

#include <string>

namespace ida::cuda {

struct CuptiApi {
  decltype(&::cuptiGetVersion) get_version = nullptr;
  decltype(&::cuptiGetResultString) get_result_string = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) activity_register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) activity_enable = nullptr;
  decltype(&::cuptiActivityDisable) activity_disable = nullptr;
  decltype(&::cuptiActivityFlushAll) activity_flush_all = nullptr;
  decltype(&::cuptiActivityGetNextRecord) activity_get_next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) activity_get_num_dropped_records = nullptr;

  std::string version_string;  // "130001", CUPTI's own count
  std::string path;
};

// The library of this process, looked for at the first call; null where none serves.
const CuptiApi* cupti();
// What the search found: version and path, or why each candidate failed.
const std::string& cupti_search_report();

}  // namespace ida::cuda
