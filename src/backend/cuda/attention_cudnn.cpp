#include "backend/cuda/attention_cudnn.h"

#include <cassert>
#include <limits>

#include "backend/cuda/attention_cudnn_problem.h"
#include "backend/cuda/cuda_stream.h"

namespace ida::cuda {
namespace {

using enum AttentionTensor;
using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;

// Addresses by tensor id, scalars included; those live here until execute returns.
class Bindings {
 public:
  explicit Bindings(const AttentionDesc& desc) : scale_(desc.scale), window_(static_cast<float>(desc.window)) {
    bind(kScale, &scale_);
    bind(kMasked, &masked_);
    if (desc.window > 0) bind(kWindow, &window_);
  }
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;

  void bind(AttentionTensor tensor, const void* address) { list_.emplace_back(id_of(tensor), const_cast<void*>(address)); }
  void bind_one() { bind(kOne, &one_); }
  std::span<const std::pair<std::int64_t, void*>> list() const { return list_; }

 private:
  float scale_, window_;
  float masked_ = -std::numeric_limits<float>::infinity();
  float one_ = 1.0f;
  std::vector<std::pair<std::int64_t, void*>> list_;
};

struct OffsetTensor {
  AttentionTensor id;
  std::int64_t row_stride;
};

const DocumentRow* rows_of(const TensorView& segments) { return static_cast<const DocumentRow*>(segments.data); }

void derive_offsets(const AttentionDesc& desc, const TensorView& segments, const OffsetParts& parts,
                    std::span<const OffsetTensor> tensors, Bindings& bindings, cudaStream_t stream) {
  DocumentOffsets offsets;
  offsets.len = parts.len;
  for (const OffsetTensor& tensor : tensors) {
    const int t = offsets.num_tensors++;
    offsets.offset[t] = parts.of_tensor[t];
    offsets.row_stride[t] = tensor.row_stride;
    bindings.bind(tensor.id, parts.of_tensor[t]);
  }
  bindings.bind(kQLen, parts.len);
  bindings.bind(kKvLen, parts.len);
  check(launch_document_offsets(rows_of(segments), desc.max_documents, desc.q_rows, offsets, stream), "document_offsets");
}

void clear_uncovered(const AttentionDesc& desc, const TensorView& segments, std::initializer_list<TensorView> matrices,
                     cudaStream_t stream) {
  ClearedRows cleared;
  for (const TensorView& matrix : matrices) {
    if (matrix.empty()) continue;
    const int t = cleared.num_tensors++;
    cleared.data[t] = matrix.data;
    cleared.row_bytes[t] = matrix.cols * dtype_size_bytes(matrix.dtype);
    cleared.row_stride_bytes[t] = matrix.row_stride * dtype_size_bytes(matrix.dtype);
  }
  check(launch_clear_uncovered_rows(rows_of(segments), desc.max_documents, desc.q_rows, cleared, stream),
        "clear_uncovered_rows");
}

// cuDNN's tensor loads want 16-byte addresses and rows; views of a fused buffer with head_dim % 8 == 0 have them.
void expect_aligned(std::initializer_list<TensorView> views) {
  for (const TensorView& view : views) {
    if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0 || view.row_stride % 8 != 0) {
      fail_runtime("[attention] cuDNN needs 16-byte aligned rows, got address {} and a row stride of {} elements",
                   view.data, view.row_stride);
    }
  }
}

void copy_rows(const TensorView& to, const std::uint16_t* from, cudaStream_t stream) {
  const auto width = static_cast<std::size_t>(to.cols) * sizeof(std::uint16_t);
  check(cudaMemcpy2DAsync(to.data, static_cast<std::size_t>(to.row_stride) * sizeof(std::uint16_t), from, width, width,
                          static_cast<std::size_t>(to.rows), cudaMemcpyDeviceToDevice, stream),
        "copy of grad_k, grad_v");
}

}  // namespace

CudnnAttention::CudnnAttention(const CudnnApi& api) : api_(api) { check_cudnn(api_, api_.create(&handle_), "cudnnCreate"); }

CudnnAttention::~CudnnAttention() { api_.destroy(handle_); }

const CudnnPlan& CudnnAttention::plan(const Key& key, std::int64_t max_workspace_bytes) {
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  CudnnGraph graph(api_);
  if (key.backward) {
    build_attention_backward(graph, key.shape, key.deterministic);
  } else {
    build_attention_forward(graph, key.shape);
  }
  const CudnnLimits limits = {.deterministic = key.deterministic, .max_workspace_bytes = max_workspace_bytes};
  return plans_.try_emplace(key, graph, CudnnTarget{.handle = handle_, .device_json = {}}, limits).first->second;
}

void CudnnAttention::forward(const AttentionDesc& desc, const AttentionForwardArgs& args, std::span<std::byte> workspace,
                             cudaStream_t stream) {
  expect_aligned({args.q, args.k, args.v, args.o});
  const Key key = {.shape = forward_graph_shape(desc, args)};
  const CudnnPlan& chosen = plan(key, cudnn_forward_limit(desc));
  const AttentionForwardParts parts(desc, workspace.data());
  assert(parts.parts.total_bytes() <= static_cast<std::int64_t>(workspace.size()));
  const bool writes_lse = !desc.uniform && !args.lse.empty();
  assert(args.lse.empty() || args.lse.contiguous());

  Bindings bindings(desc);
  bindings.bind(kQ, args.q.data);
  bindings.bind(kK, args.k.data);
  bindings.bind(kV, args.v.data);
  bindings.bind(kO, args.o.data);
  bindings.bind(kLse, writes_lse ? args.lse.data : parts.lse);
  if (!desc.uniform) {
    const OffsetTensor tensors[] = {{kQOffset, key.shape.q_stride},
                                    {kKOffset, key.shape.k_stride},
                                    {kVOffset, key.shape.v_stride},
                                    {kOOffset, key.shape.o_stride},
                                    {kLseOffset, desc.num_heads}};
    static_assert(std::size(tensors) == AttentionForwardParts::kOffsetTensors);
    derive_offsets(desc, args.segments, parts.offsets, tensors, bindings, stream);
  }
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
  if (!desc.uniform) {
    clear_uncovered(desc, args.segments, {args.o, args.lse}, stream);
  } else if (!args.lse.empty()) {
    check(launch_transpose_f32(parts.lse, args.lse.as<float>(), key.shape.batch, desc.num_heads, key.shape.len, stream),
          "transpose_f32");
  }
}

void CudnnAttention::backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, std::span<std::byte> workspace,
                              cudaStream_t stream) {
  expect_aligned({args.grad_o, args.q, args.k, args.v, args.o, args.grad_q, args.grad_k, args.grad_v});
  const Key key = {.shape = backward_graph_shape(desc, args), .backward = true, .deterministic = desc.deterministic};
  const CudnnPlan& chosen = plan(key, cudnn_backward_limit(desc));
  const AttentionBackwardParts parts(desc, workspace.data());
  assert(parts.parts.total_bytes() <= static_cast<std::int64_t>(workspace.size()));
  assert(args.lse.contiguous());
  const bool own_rows = parts.grad_k != nullptr;

  Bindings bindings(desc);
  bindings.bind_one();
  bindings.bind(kQ, args.q.data);
  bindings.bind(kK, args.k.data);
  bindings.bind(kV, args.v.data);
  bindings.bind(kO, args.o.data);
  bindings.bind(kGradO, args.grad_o.data);
  bindings.bind(kGradQ, args.grad_q.data);
  bindings.bind(kGradK, own_rows ? parts.grad_k : args.grad_k.data);
  bindings.bind(kGradV, own_rows ? parts.grad_v : args.grad_v.data);
  bindings.bind(kLse, desc.uniform ? parts.lse : args.lse.data);
  bindings.bind(kGradOSum, parts.grad_o_sum);
  if (parts.grad_q_sum != nullptr) bindings.bind(kGradQSum, parts.grad_q_sum);
  if (own_rows) {
    bindings.bind(kGradKHeads, parts.grad_k_heads);
    bindings.bind(kGradVHeads, parts.grad_v_heads);
  }
  if (desc.uniform) {
    check(launch_transpose_f32(args.lse.as<float>(), parts.lse, key.shape.batch, key.shape.len, desc.num_heads, stream),
          "transpose_f32");
  } else {
    const AttentionGraphShape& s = key.shape;
    const OffsetTensor tensors[] = {{kQOffset, s.q_stride},          {kKOffset, s.k_stride},
                                    {kVOffset, s.v_stride},          {kOOffset, s.o_stride},
                                    {kLseOffset, desc.num_heads},    {kGradOOffset, s.grad_o_stride},
                                    {kGradQOffset, s.grad_q_stride}, {kGradKOffset, s.grad_k_stride},
                                    {kGradVOffset, s.grad_v_stride}, {kGradQSumOffset, desc.num_heads * desc.head_dim}};
    static_assert(std::size(tensors) == AttentionBackwardParts::kOffsetTensors);
    derive_offsets(desc, args.segments, parts.offsets, tensors, bindings, stream);
  }
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
  if (own_rows) {
    copy_rows(args.grad_k, parts.grad_k, stream);
    copy_rows(args.grad_v, parts.grad_v, stream);
  }
  if (!desc.uniform) clear_uncovered(desc, args.segments, {args.grad_q, args.grad_k, args.grad_v}, stream);
}

}  // namespace ida::cuda
