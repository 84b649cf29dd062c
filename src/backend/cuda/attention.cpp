#include "backend/cuda/attention.h"

#include <algorithm>
#include <cassert>

#include "backend/cuda/attention_cudnn_impl.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/kernels/attention_f32.h"
#include "backend/cuda/kernels/attention_mma.h"
#include "backend/cuda/op_support.h"
#include "formats/bf16.h"

namespace ida::cuda {
namespace {

using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;
using ops::Launch;
using ops::RefusalKind;
using runtime::DeviceInfo;

static_assert(sizeof(ops::Segment) == sizeof(AttentionSegment));

// Kernels add two row numbers, or a row number and a window, in i32.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;

ops::Refusal f32_supports(const AttentionDesc& desc, const DeviceInfo& device) {
  if (const ops::Refusal refusal = refuse_other_devices(device)) return refusal;
  if (desc.dtype != DType::kF32 && desc.dtype != DType::kBF16) return {RefusalKind::kDType, "takes f32 and bf16"};
  if (desc.head_dim > kAttentionF32MaxHeadDim) return {RefusalKind::kShape, "head_dim is at most 256"};
  if (std::max({desc.q_rows, desc.kv_rows, desc.max_segments}) >= kMaxRows) {
    return {RefusalKind::kShape, "rows and segments are below 2^30"};
  }
  return ops::kAccepted;
}

ops::Refusal mma_supports(const AttentionDesc& desc, const DeviceInfo& device) {
  if (const ops::Refusal refusal = f32_supports(desc, device)) return refusal;
  if (device.sm < 80) return {RefusalKind::kHardware, "mma.sync in bf16 needs sm_80"};
  if (desc.dtype != DType::kBF16) return {RefusalKind::kDType, "takes bf16"};
  if (desc.head_dim % 2 != 0) return {RefusalKind::kShape, "head_dim is even"};
  if (!(desc.scale > 0.0f)) return {RefusalKind::kShape, "scale is above 0"};
  return ops::kAccepted;
}

AttentionProblem problem_of(const AttentionDesc& desc) {
  return {desc.q_rows,
          desc.kv_rows,
          static_cast<int>(desc.num_heads),
          static_cast<int>(desc.num_kv_heads),
          static_cast<int>(desc.head_dim),
          static_cast<int>(std::min(desc.window, kMaxRows)),
          desc.max_segments,
          desc.scale};
}

template <typename T>
AttentionMatrix<T> matrix_of(const TensorView& view) {
  return {view.as<std::remove_const_t<T>>(), view.row_stride};
}

AttentionLse lse_of(const TensorView& view) {
  if (view.empty()) return {};
  return {view.as<float>(), view.row_stride};
}

template <typename T>
AttentionForward<T> forward_args(const AttentionDesc& desc, const AttentionForwardArgs& args, const Launch& launch) {
  assert(args.segments.contiguous() && args.segments.cols == 4);
  return {.problem = problem_of(desc),
          .segments = static_cast<const AttentionSegment*>(args.segments.data),
          .q = matrix_of<const T>(args.q),
          .k = matrix_of<const T>(args.k),
          .v = matrix_of<const T>(args.v),
          .o = matrix_of<T>(args.o),
          .lse = lse_of(args.lse),
          .workspace = launch.workspace.data(),
          .num_sms = launch.device.num_cores};
}

template <typename T>
AttentionBackward<T> backward_args(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Launch& launch) {
  assert(args.segments.contiguous() && args.segments.cols == 4);
  return {.problem = problem_of(desc),
          .segments = static_cast<const AttentionSegment*>(args.segments.data),
          .grad_o = matrix_of<const T>(args.grad_o),
          .q = matrix_of<const T>(args.q),
          .k = matrix_of<const T>(args.k),
          .v = matrix_of<const T>(args.v),
          .o = matrix_of<const T>(args.o),
          .lse = lse_of(args.lse),
          .grad_q = matrix_of<T>(args.grad_q),
          .grad_k = matrix_of<T>(args.grad_k),
          .grad_v = matrix_of<T>(args.grad_v),
          .workspace = launch.workspace.data(),
          .num_sms = launch.device.num_cores};
}

// The mma kernels load and store pairs of elements. head_dim is even and buffers are allocated on 64 bytes, so only a
// slice that starts at an odd column would break it.
[[maybe_unused]] bool pairs_aligned(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 4 == 0 && view.row_stride % 2 == 0;
}

std::int64_t mma_forward_workspace(const AttentionDesc& desc, const DeviceInfo&) {
  return attention_forward_mma_workspace(problem_of(desc));
}
void mma_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const Launch& launch) {
  for ([[maybe_unused]] const TensorView& view : {args.q, args.k, args.v, args.o}) assert(pairs_aligned(view));
  check(attention_forward_mma(forward_args<bf16>(desc, args, launch), stream_of(launch)), "attention_forward");
}

std::int64_t mma_backward_workspace(const AttentionDesc& desc, const DeviceInfo&) {
  return attention_backward_mma_workspace(problem_of(desc));
}
void mma_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Launch& launch) {
  for ([[maybe_unused]] const TensorView& view :
       {args.q, args.k, args.v, args.o, args.grad_o, args.grad_q, args.grad_k, args.grad_v}) {
    assert(pairs_aligned(view));
  }
  check(attention_backward_mma(backward_args<bf16>(desc, args, launch), stream_of(launch)), "attention_backward");
}

std::int64_t f32_forward_workspace(const AttentionDesc& desc, const DeviceInfo&) {
  return attention_forward_f32_workspace(problem_of(desc));
}
void f32_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const Launch& launch) {
  check(desc.dtype == DType::kBF16 ? attention_forward_f32(forward_args<bf16>(desc, args, launch), stream_of(launch))
                                   : attention_forward_f32(forward_args<float>(desc, args, launch), stream_of(launch)),
        "attention_forward");
}

std::int64_t f32_backward_workspace(const AttentionDesc& desc, const DeviceInfo&) {
  return attention_backward_f32_workspace(problem_of(desc));
}
void f32_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Launch& launch) {
  check(desc.dtype == DType::kBF16 ? attention_backward_f32(backward_args<bf16>(desc, args, launch), stream_of(launch))
                                   : attention_backward_f32(backward_args<float>(desc, args, launch), stream_of(launch)),
        "attention_backward");
}

}  // namespace

ops::AttentionForwardList attention_forward_impls() {
  return {
      attention_forward_cudnn(),
      {.name = "own.attention_mma", .supports = mma_supports, .workspace_bytes = mma_forward_workspace, .run = mma_forward},
      {.name = "own.attention_f32",
       .supports = f32_supports,
       .workspace_bytes = f32_forward_workspace,
       .run = f32_forward}};
}

ops::AttentionBackwardList attention_backward_impls() {
  return {attention_backward_cudnn(),
          {.name = "own.attention_mma",
           .supports = mma_supports,
           .workspace_bytes = mma_backward_workspace,
           .run = mma_backward},
          {.name = "own.attention_f32",
           .supports = f32_supports,
           .workspace_bytes = f32_backward_workspace,
           .run = f32_backward}};
}

}  // namespace ida::cuda
