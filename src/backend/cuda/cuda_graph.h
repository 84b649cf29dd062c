// Recorded work of a queue as a CUDA graph.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

#include "runtime/device.h"

namespace ida::cuda {

class CudaGraph final : public runtime::Recording {
 public:
  // Captures what `enqueue` puts on `stream`. Throws kRuntime when something in it cannot be captured.
  CudaGraph(cudaStream_t stream, const std::function<void()>& enqueue);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  const runtime::KernelCounts& kernels() const override { return kernels_; }
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
  runtime::KernelCounts kernels_;  // by kernel_name()
};

}  // namespace ida::cuda
