// The cuBLASLt algorithms of a queue's matrix products: chosen by timing before the first step, kept on disk and with a
// run.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/gemm_plan_store.h"
#include "ops/gemm.h"

namespace ida::cuda {

inline constexpr std::int64_t kCublasLtWorkspaceBytes = std::int64_t{64} << 20;

// What an algorithm depends on: the problem and how its operands lie.
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
GemmKey gemm_key(const ops::GemmDesc& desc, const ops::GemmArgs& args);

class GemmPlans {
 public:
  // `device` as DeviceInfo names it.
  GemmPlans(cudaStream_t stream, std::string device);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // A problem that was not prepared takes the library's first suggestion, whatever lies on disk: under
  // device.deterministic nothing is prepared, and the bits depend on problem, library and device alone.
  void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> workspace);

  // Chooses the algorithm of a problem, if there is no choice yet, by timing the library's candidates on made-up operands
  // in `scratch`; where that is too small the library's first suggestion stays. New choices are written to disk.
  void prepare(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> scratch);

  // The choices of the problems that were prepared, as GemmPlanStore::to_json; empty where there are none.
  std::string choices() const;
  // Uses the choices of an earlier run before those on disk; false, with a reason, where they do not fit.
  bool adopt(const std::string& choices, std::string& reason);

 private:
  struct Plan;  // descriptors and algorithm of a problem
  void open();
  Plan& plan(const GemmKey& key);
  void set_algorithm(Plan& plan, std::span<std::byte> scratch);
  GemmChoice time_candidates(Plan& plan, std::span<std::byte> scratch);
  void matmul(const Plan& plan, const ops::GemmArgs& args, const cublasLtMatmulAlgo_t& algo,
              std::span<std::byte> workspace);

  cudaStream_t stream_;
  std::string device_;
  cublasLtHandle_t handle_ = nullptr;
  float* constants_ = nullptr;  // in device memory: 0, 1
  std::vector<std::unique_ptr<Plan>> plans_;
  std::unique_ptr<GemmPlanStore> stored_;  // from disk or an earlier run
  std::unique_ptr<GemmPlanStore> used_;    // what this queue prepared
};

}  // namespace ida::cuda
