#include "backend/cuda/attention_cudnn_problem.h"

#include "backend/cuda/cudnn_api.h"

namespace ida::cuda {
namespace {

using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;
using ops::Refusal;
using ops::RefusalKind;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t batch_of(const AttentionDesc& desc) { return desc.q_rows / desc.uniform_document_len; }
bool is_grouped(const AttentionDesc& desc) { return desc.num_heads != desc.num_kv_heads; }

// ---- what is taken ----

constexpr std::int64_t kMaxScoreBytes = std::int64_t{4} << 30;

// dS of every document, kept for a deterministic grad_q.
std::int64_t score_bytes(const AttentionDesc& desc) {
  const std::int64_t len = desc.uniform_document_len;
  return 2 * batch_of(desc) * desc.num_heads * round_up(len, 64) * round_up(len, 128);
}

Refusal refusal_of_layout(const AttentionDesc& desc) {
  if (desc.uniform_document_len == 0)
    return {RefusalKind::kNotPromoted, "packed documents failed their tests on cuDNN 9.19"};
  if (desc.window > 0) return {RefusalKind::kNotPromoted, "windows failed their tests on cuDNN 9.19"};
  if (desc.uniform_document_len < 2) return {RefusalKind::kShape, "documents of one token are not taken"};
  if (desc.q_rows != desc.kv_rows || desc.q_rows % desc.uniform_document_len != 0) {
    return {RefusalKind::kShape, "uniform documents must fill the rows of queries and keys"};
  }
  return ops::kAccepted;
}

}  // namespace

Refusal cudnn_attention_forward_supports(const AttentionDesc& desc, const runtime::DeviceInfo& device) {
  if (device.backend != runtime::BackendKind::kCuda) return {RefusalKind::kHardware, "needs a CUDA device"};
  if (device.sm != 90) return {RefusalKind::kNotPromoted, "cuDNN's attention is checked on sm_90 only"};
  if (device.cudnn_version == 0) return {RefusalKind::kLibrary, "libcudnn.so.9 was not found"};
  if (device.cudnn_version < kOldestCudnn) return {RefusalKind::kLibrary, "needs cuDNN 9.16 or newer"};
  if (desc.dtype != DType::kBF16) return {RefusalKind::kDType, "takes bf16"};
  if (desc.head_dim % 8 != 0 || desc.head_dim > 256) {
    return {RefusalKind::kShape, "head_dim must be a multiple of 8, at most 256"};
  }
  if (desc.num_heads % desc.num_kv_heads != 0) return {RefusalKind::kShape, "num_heads must be a multiple of num_kv_heads"};
  return refusal_of_layout(desc);
}

Refusal cudnn_attention_backward_supports(const AttentionDesc& desc, const runtime::DeviceInfo& device) {
  if (const Refusal refusal = cudnn_attention_forward_supports(desc, device)) return refusal;
  if (desc.deterministic && score_bytes(desc) > kMaxScoreBytes)
    return {RefusalKind::kShape, "deterministic backward would keep over 4 GiB of scores"};
  return ops::kAccepted;
}

// ---- memory of the library ----

// Read off cuDNN 9.19's proposals for sm_90 (tests/backend_cuda/cudnn_proposals_test.cpp): descriptors of tensors a
// multiprocessor, and what is named below.
constexpr std::int64_t kDescriptorBytes = std::int64_t{1} << 20;

std::int64_t cudnn_forward_limit(const AttentionDesc&) { return kDescriptorBytes; }

std::int64_t cudnn_backward_limit(const AttentionDesc& desc) {
  std::int64_t bytes = kDescriptorBytes;
  // grad_k and grad_v of every query head
  if (is_grouped(desc)) bytes += 2 * 2 * desc.q_rows * desc.num_heads * desc.head_dim;
  if (desc.deterministic) bytes += score_bytes(desc);
  return bytes;
}

// ---- parts of a workspace ----

AttentionForwardParts::AttentionForwardParts(const AttentionDesc& desc, std::byte* base) : parts(base) {
  lse = parts.take<float>(desc.q_rows * desc.num_heads);
  library = parts.take<std::byte>(cudnn_forward_limit(desc));
}

AttentionBackwardParts::AttentionBackwardParts(const AttentionDesc& desc, std::byte* base) : parts(base) {
  const std::int64_t q_numel = desc.q_rows * desc.num_heads * desc.head_dim;
  lse = parts.take<float>(desc.q_rows * desc.num_heads);
  grad_o_sum = parts.take<float>(desc.q_rows * desc.num_heads);
  if (!desc.deterministic) grad_q_sum = parts.take<float>(q_numel);
  library = parts.take<std::byte>(cudnn_backward_limit(desc));
}

std::int64_t cudnn_attention_forward_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  return AttentionForwardParts(desc, nullptr).parts.total_bytes();
}
std::int64_t cudnn_attention_backward_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  return AttentionBackwardParts(desc, nullptr).parts.total_bytes();
}

// ---- shapes of graphs ----

namespace {

AttentionGraphShape shape_of(const AttentionDesc& desc, const TensorView& q, const TensorView& k, const TensorView& v,
                             const TensorView& o) {
  return {.batch = batch_of(desc),
          .len = desc.uniform_document_len,
          .num_heads = desc.num_heads,
          .num_kv_heads = desc.num_kv_heads,
          .head_dim = desc.head_dim,
          .q_stride = q.row_stride,
          .k_stride = k.row_stride,
          .v_stride = v.row_stride,
          .o_stride = o.row_stride};
}

}  // namespace

AttentionGraphShape forward_graph_shape(const AttentionDesc& desc, const AttentionForwardArgs& args) {
  return shape_of(desc, args.q, args.k, args.v, args.o);
}

AttentionGraphShape backward_graph_shape(const AttentionDesc& desc, const AttentionBackwardArgs& args) {
  AttentionGraphShape shape = shape_of(desc, args.q, args.k, args.v, args.o);
  shape.grad_o_stride = args.grad_o.row_stride;
  shape.grad_q_stride = args.grad_q.row_stride;
  shape.grad_k_stride = args.grad_k.row_stride;
  shape.grad_v_stride = args.grad_v.row_stride;
  return shape;
}

}  // namespace ida::cuda
