// The queue of a CUDA device, as ops hand it to implementations, and the check of every CUDA call.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>

#include "base/error.h"
#include "ops/impl_list.h"
#include "runtime/device.h"

namespace ida::cuda {

class CudnnAttention;
class GemmPlans;

// Work enqueued on a queue runs in order. A queue belongs to the device it was made on.
class CudaQueue final : public runtime::Queue {
 public:
  explicit CudaQueue(const runtime::DeviceInfo& device);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  GemmPlans& gemm_plans() { return *gemm_plans_; }
  CudnnAttention& cudnn_attention();  // opened at the first call

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<GemmPlans> gemm_plans_;
  std::unique_ptr<CudnnAttention> cudnn_attention_;
};

// kRuntime naming what failed, CUDA's name of the error and its text.
inline void check(cudaError_t error, std::string_view what) {
  if (error != cudaSuccess) fail_runtime("[cuda] {}: {} ({})", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

inline CudaQueue& queue_of(const ops::Launch& launch) { return static_cast<CudaQueue&>(*launch.queue); }
inline cudaStream_t stream_of(const ops::Launch& launch) { return queue_of(launch).stream(); }

}  // namespace ida::cuda
