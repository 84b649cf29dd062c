#include "backend/cuda/cublaslt_api.h"

#include <fmt/format.h>

#include <optional>

#include "backend/cuda/shared_library.h"

namespace ida::cuda {
namespace {

const LibrarySearch kSearch = {.soname = "libcublasLt.so.13",
                               .environment = "IDA_CUBLASLT_LIBRARY",
                               .wheel_folders = {"nvidia/cu13/lib", "nvidia/cublas/lib"},
                               .folders = {"/usr/local/cuda/lib64"}};

struct Search {
  std::optional<CublasLtApi> api;
  std::string report;
};

Search search() {
  SharedLibrary library = open_library(kSearch);
  CublasLtApi api;
  const bool complete = SymbolLoader(library)
                            .load("cublasLtCreate", api.create)
                            .load("cublasLtDestroy", api.destroy)
                            .load("cublasLtGetVersion", api.get_version)
                            .load("cublasLtMatmul", api.matmul)
                            .load("cublasLtMatmulDescCreate", api.matmul_desc_create)
                            .load("cublasLtMatmulDescDestroy", api.matmul_desc_destroy)
                            .load("cublasLtMatmulDescSetAttribute", api.matmul_desc_set)
                            .load("cublasLtMatrixLayoutCreate", api.layout_create)
                            .load("cublasLtMatrixLayoutDestroy", api.layout_destroy)
                            .load("cublasLtMatmulPreferenceCreate", api.preference_create)
                            .load("cublasLtMatmulPreferenceDestroy", api.preference_destroy)
                            .load("cublasLtMatmulPreferenceSetAttribute", api.preference_set)
                            .load("cublasLtMatmulAlgoGetHeuristic", api.heuristic)
                            .load("cublasLtMatmulAlgoCheck", api.algo_check)
                            .complete();
  if (!complete) return {std::nullopt, library.reason};
  return {api, fmt::format("version {}, {}", api.version(), library.path)};
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
