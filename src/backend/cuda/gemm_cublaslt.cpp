#include "backend/cuda/gemm_cublaslt.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/cublaslt_api.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void check_lt(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_runtime("[cublaslt] {}: status {}", what, static_cast<int>(status));
}

cudaDataType_t data_type(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

std::int64_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return static_cast<std::int64_t>(address == 0 ? 16 : std::min<std::uintptr_t>(address & (~address + 1), 16));
}

// The library is column-major: a row-major [rows, cols] matrix is its [cols, rows] one. C = A B becomes C^T = B^T A^T.
struct Layout {
  cublasLtMatrixLayout_t handle = nullptr;
  Layout(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t row_stride) {
    check_lt(cublaslt()->layout_create(&handle, data_type(dtype), static_cast<std::uint64_t>(cols),
                                       static_cast<std::uint64_t>(rows), row_stride),
             "matrix layout");
  }
  ~Layout() { cublaslt()->layout_destroy(handle); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
};

}  // namespace

std::string GemmKey::to_string() const {
  return fmt::format("{} | strides {} {} {} {} | align {}", desc.to_string(), a_stride, b_stride, c_stride, residual_stride,
                     alignment_bytes);
}

// Descriptors of one problem.
struct GemmPlans::Problem {
  cublasLtMatmulDesc_t op = nullptr;
  Layout a, b, c;
  Layout added;  // what beta multiplies: the residual, or C itself

  Problem(const GemmKey& key, const void* bias)
      : a(key.desc.a_dtype, key.desc.a_transposed ? key.desc.k : key.desc.m,
          key.desc.a_transposed ? key.desc.m : key.desc.k, key.a_stride),
        b(key.desc.b_dtype, key.desc.b_transposed ? key.desc.n : key.desc.k,
          key.desc.b_transposed ? key.desc.k : key.desc.n, key.b_stride),
        c(key.desc.c_dtype, key.desc.m, key.desc.n, key.c_stride),
        added(key.desc.c_dtype, key.desc.m, key.desc.n, key.desc.has_residual ? key.residual_stride : key.c_stride) {
    const CublasLtApi& api = *cublaslt();
    check_lt(api.matmul_desc_create(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul descriptor");
    // The library's first operand is our B, its second our A.
    const cublasOperation_t first = key.desc.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = key.desc.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (!key.desc.has_bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(key.desc.b_dtype));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  ~Problem() { cublaslt()->matmul_desc_destroy(op); }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(cublaslt()->matmul_desc_set(op, attribute, &value, sizeof(value)), "matmul attribute");
  }
};

GemmPlans::GemmPlans(cudaStream_t stream) : stream_(stream) {}

GemmPlans::~GemmPlans() {
  if (handle_ != nullptr) cublaslt()->destroy(handle_);
}

const cublasLtMatmulAlgo_t& GemmPlans::plan(const GemmKey& key, const Problem& problem) {
  const std::string name = key.to_string();
  if (const auto found = plans_.find(name); found != plans_.end()) return found->second;
  const CublasLtApi& api = *cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(api.preference_create(&preference), "preference");
  const auto workspace_bytes = static_cast<std::uint64_t>(kCublasLtWorkspaceBytes);
  check_lt(
      api.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof(workspace_bytes)),
      "preference");
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = api.heuristic(handle_, problem.op, problem.b.handle, problem.a.handle, problem.added.handle,
                                              problem.c.handle, preference, 1, &result, &found);
  api.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS)
    fail_runtime("[cublaslt] version {} has no algorithm for {}", api.version(), name);
  return plans_.emplace(name, result.algo).first->second;
}

void GemmPlans::run(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::span<std::byte> workspace) {
  const CublasLtApi& api = *cublaslt();
  if (handle_ == nullptr) check_lt(api.create(&handle_), "handle");
  const GemmKey key{
      .desc = desc,
      .a_stride = args.a.row_stride,
      .b_stride = args.b.row_stride,
      .c_stride = args.c.row_stride,
      .residual_stride = args.residual.row_stride,
      .alignment_bytes = std::min({alignment_of(args.a.data), alignment_of(args.b.data), alignment_of(args.c.data),
                                   alignment_of(args.bias.data), alignment_of(args.residual.data)})};
  const Problem problem(key, args.bias.data);
  const cublasLtMatmulAlgo_t& algo = plan(key, problem);
  const float beta = desc.accumulate || desc.has_residual ? 1.0f : 0.0f;
  const void* added = desc.has_residual ? args.residual.data : args.c.data;
  check_lt(api.matmul(handle_, problem.op, &args.alpha, args.b.data, problem.b.handle, args.a.data, problem.a.handle, &beta,
                      added, problem.added.handle, args.c.data, problem.c.handle, &algo, workspace.data(), workspace.size(),
                      stream_),
           desc.to_string());
}

namespace {

ops::Refusal refuse_without_library(const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_other_devices(device)) return refusal;
  if (device.cublaslt_version.empty()) return {ops::RefusalKind::kLibrary, "cuBLASLt was not found"};
  return ops::kAccepted;
}

ops::Refusal supports_bf16(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_without_library(device)) return refusal;
  if (desc.a_dtype != DType::kBF16 || desc.b_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "operands are not bf16"};
  if (desc.has_bias && desc.c_dtype != DType::kBF16)
    return {ops::RefusalKind::kDType, "bias with a result that is not bf16"};
  return ops::kAccepted;
}

ops::Refusal supports_f32(const ops::GemmDesc& desc, const runtime::DeviceInfo& device) {
  if (const auto refusal = refuse_without_library(device)) return refusal;
  if (desc.a_dtype != DType::kF32 || desc.b_dtype != DType::kF32 || desc.c_dtype != DType::kF32)
    return {ops::RefusalKind::kDType, "operands are not all f32"};
  return ops::kAccepted;
}

std::int64_t workspace_bytes(const ops::GemmDesc&, const runtime::DeviceInfo&) { return kCublasLtWorkspaceBytes; }

void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  queue_of(launch).gemm_plans().run(desc, args, launch.workspace);
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_bf16() {
  return {.name = "cublaslt.bf16", .supports = supports_bf16, .workspace_bytes = workspace_bytes, .run = run};
}
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_cublaslt_f32() {
  return {.name = "cublaslt.f32", .supports = supports_f32, .workspace_bytes = workspace_bytes, .run = run};
}

}  // namespace ida::cuda
