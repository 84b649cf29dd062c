// cuDNN's entries of the attention lists on the emulated device: there is no such library.
#include "backend/cuda/attention_cudnn_impl.h"

namespace ida::cuda {
namespace {

ops::Refusal not_here(const ops::AttentionDesc&, const runtime::DeviceInfo&) {
  return {ops::RefusalKind::kLibrary, "the emulated device has no cuDNN"};
}

}  // namespace

ops::Impl<ops::AttentionDesc, ops::AttentionForwardArgs> attention_forward_cudnn() {
  return {.name = "cudnn.attention", .supports = not_here, .workspace_bytes = nullptr, .run = nullptr};
}
ops::Impl<ops::AttentionDesc, ops::AttentionBackwardArgs> attention_backward_cudnn() {
  return {.name = "cudnn.attention", .supports = not_here, .workspace_bytes = nullptr, .run = nullptr};
}

}  // namespace ida::cuda
