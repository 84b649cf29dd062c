#include "backend/cuda/cublaslt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <optional>

namespace ida::cuda {
namespace {

constexpr std::array kPlaces = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};

struct Search {
  std::optional<CublasLtApi> api;
  std::string report;
};

template <typename Function>
bool resolve(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool resolve_all(void* library, CublasLtApi& api) {
  return resolve(library, api.create, "cublasLtCreate") && resolve(library, api.destroy, "cublasLtDestroy") &&
         resolve(library, api.get_version, "cublasLtGetVersion") && resolve(library, api.matmul, "cublasLtMatmul") &&
         resolve(library, api.matmul_desc_create, "cublasLtMatmulDescCreate") &&
         resolve(library, api.matmul_desc_destroy, "cublasLtMatmulDescDestroy") &&
         resolve(library, api.matmul_desc_set, "cublasLtMatmulDescSetAttribute") &&
         resolve(library, api.layout_create, "cublasLtMatrixLayoutCreate") &&
         resolve(library, api.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
         resolve(library, api.preference_create, "cublasLtMatmulPreferenceCreate") &&
         resolve(library, api.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
         resolve(library, api.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
         resolve(library, api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
}

Search search() {
  Search found;
  for (const char* place : kPlaces) {
    void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      found.report = dlerror();
      continue;
    }
    CublasLtApi api;
    if (resolve_all(library, api)) {
      found.api = api;
      found.report = fmt::format("{}, version {}", place, api.version());
      return found;
    }
    found.report = fmt::format("{} lacks a function that is needed", place);
    dlclose(library);
  }
  return found;
}

const Search& the_search() {
  static const Search result = search();
  return result;
}

}  // namespace

std::string CublasLtApi::version() const {
  const std::size_t v = get_version();  // 130100
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

const CublasLtApi* cublaslt() { return the_search().api ? &*the_search().api : nullptr; }
const std::string& cublaslt_search_report() { return the_search().report; }

}  // namespace ida::cuda
