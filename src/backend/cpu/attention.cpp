#include "backend/cpu/attention.h"

#include <algorithm>

#include "backend/cpu/attention_definition.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;
using ops::Launch;
using ops::Segment;

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kIndexBytes = sizeof(Index);

ops::Refusal blocked_supports(const AttentionDesc& desc, const runtime::DeviceInfo& device) {
  if (desc.head_dim > kAttentionMaxHeadDim) return {ops::RefusalKind::kShape, "head_dim is at most 256"};
  return any_shape(desc, device);
}

std::span<const Segment> segments_of(const AttentionDesc& desc, const TensorView& table) {
  assert(table.contiguous() && table.cols == 4);
  return {static_cast<const Segment*>(table.data), static_cast<std::size_t>(desc.max_segments)};
}

// ---- forward ----

Index query_blocks(const Segment& segment) { return (segment.q_len + kAttentionBlock - 1) / kAttentionBlock; }

std::int64_t thread_scratch_bytes(std::int64_t elements) { return WorkspaceParts::aligned(elements * kFloatBytes); }

std::int64_t forward_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  return WorkspaceParts::aligned((desc.max_segments + 1) * kIndexBytes) +
         num_threads() * thread_scratch_bytes(attention_forward_scratch(desc));
}

// first[s] = blocks of queries before segment s; returns their total.
Index number_blocks(std::span<const Segment> segments, Index* first) {
  first[0] = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) first[s + 1] = first[s] + query_blocks(segments[s]);
  return first[segments.size()];
}

void forward_blocked(const AttentionDesc& desc, const AttentionForwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  const std::span<const Segment> segments = segments_of(desc, args.segments);
  const Index scratch_elements = thread_scratch_bytes(attention_forward_scratch(desc)) / kFloatBytes;
  WorkspaceParts parts(launch.workspace);
  Index* first = parts.take<Index>(desc.max_segments + 1);
  float* scratch = parts.take<float>(num_threads() * scratch_elements);
  zero_rows(args.o);
  if (!args.lse.empty()) zero_rows(args.lse);
  const Index blocks = number_blocks(segments, first);
  parallel_for(blocks * desc.num_heads, 1, [&](Index begin, Index end) {
    float* own = scratch + thread_index() * scratch_elements;
    for (Index i = begin; i < end; ++i) {
      // Long blocks, the last of a segment, start first: fewer threads idle at the end.
      const Index block = blocks - 1 - i / desc.num_heads;
      const Index head = i % desc.num_heads;
      const auto s = static_cast<std::size_t>(std::upper_bound(first, first + segments.size(), block) - first - 1);
      const Segment& segment = segments[s];
      const Index q_first = (block - first[s]) * kAttentionBlock;
      // A single query serves its whole group of heads in one item.
      if (segment.q_len == 1 && head >= desc.num_kv_heads) continue;
      kernels.attention_forward(desc, args, {segment, head, q_first, std::min(kAttentionBlock, segment.q_len - q_first)},
                                own);
    }
  });
}

// ---- backward ----

std::int64_t backward_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  const std::int64_t grad_q_sum = desc.dtype == DType::kF32 ? 0 : desc.q_rows * desc.num_heads * desc.head_dim;
  return WorkspaceParts::aligned(desc.q_rows * desc.num_heads * kFloatBytes) +
         WorkspaceParts::aligned(grad_q_sum * kFloatBytes) +
         num_threads() * thread_scratch_bytes(attention_backward_scratch(desc));
}

void backward_blocked(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  const std::span<const Segment> segments = segments_of(desc, args.segments);
  const Index scratch_elements = thread_scratch_bytes(attention_backward_scratch(desc)) / kFloatBytes;
  const Index width = desc.num_heads * desc.head_dim;
  WorkspaceParts parts(launch.workspace);
  float* dot = parts.take<float>(desc.q_rows * desc.num_heads);
  TensorView grad_q_sum = args.grad_q;
  if (desc.dtype != DType::kF32) {
    grad_q_sum = matrix_view(parts.take<float>(desc.q_rows * width), DType::kF32, desc.q_rows, width);
    zero_rows(grad_q_sum);
  }
  float* scratch = parts.take<float>(num_threads() * scratch_elements);
  for (const TensorView& view : {args.grad_q, args.grad_k, args.grad_v}) zero_rows(view);
  parallel_for(desc.max_segments * desc.num_kv_heads, 1, [&](Index begin, Index end) {
    float* own = scratch + thread_index() * scratch_elements;
    for (Index i = begin; i < end; ++i) {
      const Segment& segment = segments[static_cast<std::size_t>(i / desc.num_kv_heads)];
      if (segment.q_len == 0) continue;
      assert(segment.q_begin == segment.kv_begin && segment.q_len == segment.kv_len);
      kernels.attention_backward(desc, args,
                                 {segment, i % desc.num_kv_heads, dot, grad_q_sum.as<float>(), grad_q_sum.row_stride}, own);
    }
  });
}

}  // namespace

ops::AttentionForwardList attention_forward_impls() {
  return {
      {"cpu.blocked", blocked_supports, forward_workspace, forward_blocked},
      {"cpu.definition", any_shape<AttentionDesc>, attention_forward_definition_workspace, attention_forward_definition}};
}

ops::AttentionBackwardList attention_backward_impls() {
  return {
      {"cpu.blocked", blocked_supports, backward_workspace, backward_blocked},
      {"cpu.definition", any_shape<AttentionDesc>, attention_backward_definition_workspace, attention_backward_definition}};
}

}  // namespace ida::cpu
