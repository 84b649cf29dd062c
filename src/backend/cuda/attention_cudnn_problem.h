// Which attention problems cuDNN takes, and what memory they need: pure functions, no library is opened.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/attention_cudnn_graph.h"
#include "ops/attention.h"

namespace ida::cuda {

ops::Refusal cudnn_attention_forward_supports(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);
ops::Refusal cudnn_attention_backward_supports(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);
std::int64_t cudnn_attention_forward_workspace(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);
std::int64_t cudnn_attention_backward_workspace(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);

// What of these workspaces is for cuDNN itself: a plan that needs more is refused.
std::int64_t cudnn_forward_limit(const ops::AttentionDesc& desc);
std::int64_t cudnn_backward_limit(const ops::AttentionDesc& desc);

// The shape of the graph; strides are those of the tensors it reads and writes.
AttentionGraphShape forward_graph_shape(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args);
AttentionGraphShape backward_graph_shape(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args);

// ---- parts of a workspace ----

// Hands out parts of a workspace; from a null base it only measures.
class AttentionParts {
 public:
  explicit AttentionParts(std::byte* base) : base_(base == nullptr ? nullptr : aligned(base)) {}
  template <typename T>
  T* take(std::int64_t count) {
    const std::int64_t begin = used_;
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin);
  }
  // With what it takes to align the first part.
  std::int64_t total_bytes() const { return used_ + kAlignment; }

 private:
  static constexpr std::int64_t kAlignment = 256;
  static std::byte* aligned(std::byte* address) {
    return address + (-reinterpret_cast<std::uintptr_t>(address)) % static_cast<std::uintptr_t>(kAlignment);
  }
  std::byte* base_;
  std::int64_t used_ = 0;
};

struct AttentionForwardParts {
  AttentionForwardParts(const ops::AttentionDesc& desc, std::byte* base);
  AttentionParts parts;
  float* lse = nullptr;  // [batch, heads, len]
  std::byte* library = nullptr;
};

struct AttentionBackwardParts {
  AttentionBackwardParts(const ops::AttentionDesc& desc, std::byte* base);
  AttentionParts parts;
  float* lse = nullptr;  // [batch, heads, len]
  float* grad_o_sum = nullptr;
  float* grad_q_sum = nullptr;  // not when deterministic
  std::byte* library = nullptr;
};

}  // namespace ida::cuda
