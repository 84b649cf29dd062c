// Matrix products by cuBLASLt: f32 without TF32, bf16 with f32 sums.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ops/gemm.h"

namespace ida::cuda {

inline constexpr std::int64_t kCublasLtWorkspaceBytes = std::int64_t{64} << 20;

// What a plan depends on: the problem and how its operands lie.
struct GemmKey {
  ops::GemmDesc desc;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  std::int64_t residual_stride = 0;
  std::int64_t alignment_bytes = 16;  // of every operand, at most 16
  std::string to_string() const;
};

// The algorithms chosen for a queue's device, by problem.
class GemmPlans {
 public:
  explicit GemmPlans(cudaStream_t stream);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> workspace);

  // Times the library's candidates for a problem with dense operands, on scratch memory of its own, and keeps the best.
  void tune(const ops::GemmDesc& desc);

  // One line a plan: problem, algorithm's bytes in hex, time where it was measured.
  std::vector<std::string> describe() const;

 private:
  struct Problem;
  struct Plan {
    cublasLtMatmulAlgo_t algo{};
    double microseconds = 0.0;  // 0: the library's first suggestion, not measured
  };
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const Problem& problem, int count) const;
  const Plan& plan(const GemmKey& key, const Problem& problem);

  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<std::string, Plan> plans_;
};

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32();

}  // namespace ida::cuda
