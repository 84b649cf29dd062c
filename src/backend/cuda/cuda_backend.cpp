#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/cuda/attention.h"
#include "backend/cuda/cublaslt_api.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cudnn_api.h"
#include "backend/cuda/cupti_api.h"
#include "backend/cuda/gemm_cublaslt.h"
#include "backend/cuda/kernel_archs.h"
#include "backend/cuda/nvml_api.h"
#include "backend/cuda/op_impls.h"

namespace ida::cuda {
namespace {

// Context, kernels, cuBLASLt and cuDNN: 545 to 556 MiB on an H200 with driver 580 at three shapes (evidence/gpu-h200-*).
constexpr std::int64_t kOutsideArenaBytes = std::int64_t{576} << 20;

runtime::DeviceInfo describe(const cudaDeviceProp& properties, int device) {
  runtime::DeviceInfo info;
  info.device_index = device;
  info.backend = runtime::BackendKind::kCuda;
  info.name = properties.name;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.outside_arena_bytes = kOutsideArenaBytes;
  info.num_cores = properties.multiProcessorCount;
  info.sm = 10 * properties.major + properties.minor;
  info.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  if (const CublasLtApi* api = cublaslt()) info.cublaslt_version = api->version();
  if (const CudnnApi* api = cudnn()) info.cudnn_version = api->version;
  return info;
}

}  // namespace

CudaSearch detect_cuda() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return {.device = std::nullopt, .reason = "this machine has no NVIDIA driver"};
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return {.device = std::nullopt, .reason = fmt::format("no usable driver: {}", cudaGetErrorString(error))};
  std::string reason = "no GPU";
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    const int sm = 10 * properties.major + properties.minor;
    if (has_kernels_for(sm)) return {.device = describe(properties, device), .reason = {}};
    reason = fmt::format("{} is sm_{}, this build has code for {}", properties.name, sm, kernel_archs());
  }
  return {.device = std::nullopt, .reason = reason};
}

std::optional<runtime::DeviceInfo> known_device(std::string_view name) {
  struct Row {
    std::string_view name, full_name;
    int sm, num_cores;
    std::int64_t memory_gib, shared_bytes;
  };
  static constexpr std::array kDevices = {
      Row{"h100", "NVIDIA H100 80GB HBM3", 90, 132, 80, 232448},
      Row{"h200", "NVIDIA H200", 90, 132, 141, 232448},
      Row{"b200", "NVIDIA B200", 100, 148, 180, 232448},
      Row{"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 32, 101376},
      Row{"rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", 120, 70, 16, 101376},
  };
  const auto row = std::find_if(kDevices.begin(), kDevices.end(), [&](const Row& r) { return r.name == name; });
  if (row == kDevices.end()) return std::nullopt;
  runtime::DeviceInfo info;
  info.backend = runtime::BackendKind::kCuda;
  info.name = row->full_name;
  info.memory_bytes = row->memory_gib << 30;
  info.outside_arena_bytes = kOutsideArenaBytes;
  info.num_cores = row->num_cores;
  info.sm = row->sm;
  info.shared_bytes_per_block = row->shared_bytes;
  info.cublaslt_version = "assumed";
  info.cudnn_version = 91900;
  return info;
}

std::unique_ptr<runtime::Device> open_cuda(const runtime::DeviceInfo& info) { return std::make_unique<CudaDevice>(info); }

std::vector<LibraryReport> library_reports() {
  return {{"cuBLASLt", cublaslt_search_report(), "matrix products run on CUDA cores, many times slower"},
          {"cuDNN", cudnn_search_report(), "attention takes the own kernels, on Hopper slower"},
          {"CUPTI", cupti_search_report(), "kernels are not counted by the driver's records"},
          {"NVML", nvml_search_report(), "memory in use on the card is counted with that of other processes"}};
}

ops::Backend make_cuda_backend(const runtime::DeviceInfo&) {
  return {.gemm = {gemm_cublaslt_bf16(), gemm_cublaslt_f32(), gemm_cublaslt_fp8_tensor(), gemm_cublaslt_fp8_row(),
                   gemm_cublaslt_fp8_block(), gemm_emulated_bf16(), gemm_emulated_f32(), gemm_simt()},
          .rms_norm_forward = rms_norm_forward_impls(),
          .rms_norm_backward = rms_norm_backward_impls(),
          .rope = rope_impls(),
          .attention_forward = attention_forward_impls(),
          .attention_backward = attention_backward_impls(),
          .swiglu_forward = swiglu_forward_impls(),
          .swiglu_backward = swiglu_backward_impls(),
          .embedding_forward = embedding_forward_impls(),
          .embedding_backward = embedding_backward_impls(),
          .cross_entropy = cross_entropy_impls(),
          .add = add_impls(),
          .convert = convert_impls(),
          .bias_grad = bias_grad_impls(),
          .fill = fill_impls(),
          .sum_squares = sum_squares_impls(),
          .optimizer = optimizer_impls(),
          .quantize = quantize_impls(),
          .dequantize = dequantize_impls(),
          .pack = pack_impls(),
          .quantize_record = quantize_record_impls(),
          .quantize_steps = quantize_step_impls()};
}

}  // namespace ida::cuda
