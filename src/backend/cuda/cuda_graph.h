// Recorded work of a queue as a CUDA graph.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "runtime/device.h"

namespace ida::cuda {

// The capture of a queue's work between construction and end(); one that is not ended is thrown away.
class CudaCapture {
 public:
  explicit CudaCapture(cudaStream_t stream);
  ~CudaCapture();
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  // Kernels captured since the last mark are counted for `label`.
  void mark(const std::string& label);
  // The graph, which the caller destroys.
  cudaGraph_t end();
  const runtime::KernelCountsByOp& kernels() const { return kernels_; }

 private:
  void count_new_kernels(cudaGraph_t graph, const std::string& label);
  cudaStream_t stream_;
  bool ended_ = false;
  std::size_t counted_nodes_ = 0;
  runtime::KernelCountsByOp kernels_;
};

class CudaGraph final : public runtime::Recording {
 public:
  // Takes what `capture` holds. Throws kRuntime when something in it cannot be captured.
  CudaGraph(cudaStream_t stream, CudaCapture& capture);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  const runtime::KernelCountsByOp& kernels() const override { return kernels_; }
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
  runtime::KernelCountsByOp kernels_;  // by kernel_name()
};

}  // namespace ida::cuda
