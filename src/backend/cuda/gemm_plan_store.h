// Algorithms of matrix products that were chosen by timing, as text: kept on disk between runs and with a run.
#pragma once
#include <cublasLt.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace ida::cuda {

// The library's own 64 bytes of an algorithm; they mean the same in the same version of the library (cuBLAS manual,
// cublasLtMatmulAlgo_t).
struct GemmChoice {
  cublasLtMatmulAlgo_t algo{};
  double ms = 0.0;        // when it was chosen
  double first_ms = 0.0;  // of the library's first suggestion, then
  std::int64_t candidates = 0;
};

// What choices hold for.
struct GemmPlanDomain {
  std::string device;   // "NVIDIA H200"
  std::string library;  // "cublasLt 13.1.0"
  bool operator==(const GemmPlanDomain&) const = default;
};

class GemmPlanStore {
 public:
  explicit GemmPlanStore(GemmPlanDomain domain) : domain_(std::move(domain)) {}

  const GemmChoice* find(const std::string& problem) const;
  void put(const std::string& problem, const GemmChoice& choice) { choices_[problem] = choice; }
  bool empty() const { return choices_.empty(); }

  // {"device", "library", "problems": {problem: {"algorithm": 128 hex digits, "ms", "first_ms", "candidates"}}}
  std::string to_json() const;
  // Takes the choices of `text` instead of its own; false, with `reason`, where the text is of another device or library
  // or is not whole. Then nothing is taken.
  bool adopt(const std::string& text, std::string& reason);

 private:
  GemmPlanDomain domain_;
  std::map<std::string, GemmChoice> choices_;
};

// Where the choices of a device and library are kept: below IDA_CACHE_DIR, else XDG_CACHE_HOME/ida-train, else
// HOME/.cache/ida-train; empty where none of the three is set.
std::string gemm_plan_path(const GemmPlanDomain& domain);

}  // namespace ida::cuda
