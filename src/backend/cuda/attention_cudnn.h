// Attention through cuDNN's fused engines, behind ops/attention.h: bf16, causal, grouped heads, sliding window, sm_90.
//
// Two forms of a problem. Uniform (desc.uniform): dense [batch, heads, len, head_dim]. Packed (desc.max_documents > 0):
// every row of the table is a batch item with offsets and lengths that a kernel derives from the table on the device, so
// neither a plan nor a captured graph depends on where documents lie. The batch is max_documents and its extent
// max_document_len: blocks of documents that are absent or shorter start and leave.
//
// What is taken, and the workspace: attention_cudnn_problem.h.
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
