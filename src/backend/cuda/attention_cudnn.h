// Attention through cuDNN's fused engines, behind ops/attention.h: bf16, causal, grouped heads, documents of one length as
// a dense [batch, heads, len, head_dim], sm_90. What is taken, and the workspace: attention_cudnn_problem.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "backend/cuda/attention_cudnn_graph.h"
#include "backend/cuda/cudnn_plan.h"
#include "ops/attention.h"

namespace ida::cuda {

// A handle on the current device and the plans built so far. One a stream of work: calls must not overlap.
class CudnnAttention {
 public:
  // Throws Error(kRuntime) where cuDNN cannot start.
  explicit CudnnAttention(const CudnnApi& api);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // The first call with a problem builds its plan (about a second: cuDNN compiles), which must not happen while a stream
  // is captured; later calls only enqueue.
  void forward(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args, std::span<std::byte> workspace,
               cudaStream_t stream);
  void backward(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args, std::span<std::byte> workspace,
                cudaStream_t stream);

 private:
  struct Key {
    AttentionGraphShape shape;
    bool backward = false;
    bool deterministic = false;
    auto operator<=>(const Key&) const = default;
  };
  const CudnnPlan& plan(const Key& key, std::int64_t max_workspace_bytes);

  const CudnnApi& api_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, CudnnPlan> plans_;
};

}  // namespace ida::cuda
