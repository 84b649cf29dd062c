// Matrix products by cuBLASLt: f32 without TF32, bf16 with f32 sums.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <string>

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
  bool alpha_on_device = false;
  std::string to_string() const;
  bool operator==(const GemmKey&) const = default;
};

// The algorithms chosen for a queue's device, by problem.
class GemmPlans {
 public:
  explicit GemmPlans(cudaStream_t stream);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> workspace);

 private:
  struct Problem;
  const cublasLtMatmulAlgo_t& plan(const GemmKey& key, const Problem& problem);

  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<std::string, cublasLtMatmulAlgo_t> plans_;  // the library's first suggestion, by problem
};

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32();

}  // namespace ida::cuda
