#include "backend/cuda/attention_cudnn_impl.h"

#include "backend/cuda/attention_cudnn.h"
#include "backend/cuda/attention_cudnn_problem.h"
#include "backend/cuda/cuda_stream.h"

namespace ida::cuda {
namespace {

void forward(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args, const ops::Launch& launch) {
  CudaQueue& queue = queue_of(launch);
  queue.cudnn_attention().forward(desc, args, launch.workspace, queue.stream());
}

void backward(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args, const ops::Launch& launch) {
  CudaQueue& queue = queue_of(launch);
  queue.cudnn_attention().backward(desc, args, launch.workspace, queue.stream());
}

}  // namespace

ops::Impl<ops::AttentionDesc, ops::AttentionForwardArgs> attention_forward_cudnn() {
  return {.name = "cudnn.attention",
          .supports = cudnn_attention_forward_supports,
          .workspace_bytes = cudnn_attention_forward_workspace,
          .run = forward};
}
ops::Impl<ops::AttentionDesc, ops::AttentionBackwardArgs> attention_backward_cudnn() {
  return {.name = "cudnn.attention",
          .supports = cudnn_attention_backward_supports,
          .workspace_bytes = cudnn_attention_backward_workspace,
          .run = backward};
}

}  // namespace ida::cuda
