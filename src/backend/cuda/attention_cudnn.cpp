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

  void bind(std::int64_t id, const void* address) { list_.emplace_back(id, const_cast<void*>(address)); }
  void bind(AttentionTensor tensor, const void* address) { bind(id_of(tensor), address); }
  void bind_one() { bind(kOne, &one_); }
  std::span<const std::pair<std::int64_t, void*>> list() const { return list_; }

 private:
  float scale_, window_;
  float masked_ = -std::numeric_limits<float>::infinity();
  float one_ = 1.0f;
  std::vector<std::pair<std::int64_t, void*>> list_;
};

const DocumentRow* rows_of(const TensorView& segments) { return static_cast<const DocumentRow*>(segments.data); }

// Lengths and offsets of packed documents, from the table.
void derive_offsets(const AttentionDesc& desc, const TensorView& segments, const OffsetParts& parts,
                    const std::vector<std::int64_t>& strides, Bindings& bindings, cudaStream_t stream) {
  DocumentOffsets offsets;
  offsets.len = parts.len;
  for (const std::int64_t stride : strides) {
    const int i = offsets.num_strides++;
    offsets.offset[i] = parts.of_stride[i];
    offsets.row_stride[i] = stride;
    bindings.bind(id_of(kFirstOffset) + i, parts.of_stride[i]);
  }
  bindings.bind(kQLen, parts.len);
  bindings.bind(kKvLen, parts.len);
  check(launch_document_offsets(rows_of(segments), desc.max_documents, desc.q_rows, offsets, stream), "document_offsets");
}

struct SettledMatrix {
  TensorView to;
  const void* source = nullptr;  // where its rows of documents are; null: in place
};

// Zero outside of documents, and rows of documents where they belong.
void settle_rows(const AttentionDesc& desc, const TensorView& segments, std::initializer_list<SettledMatrix> list,
                 cudaStream_t stream) {
  CoveredRows rows;
  for (const SettledMatrix& matrix : list) {
    if (matrix.to.empty()) continue;
    const int m = rows.num_matrices++;
    const std::int64_t element = dtype_size_bytes(matrix.to.dtype);
    rows.data[m] = matrix.to.data;
    rows.source[m] = matrix.source;
    rows.row_bytes[m] = matrix.to.cols * element;
    rows.row_stride_bytes[m] = matrix.to.row_stride * element;
  }
  check(launch_settle_rows(rows_of(segments), desc.max_documents, desc.q_rows, rows, stream), "settle_rows");
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
    derive_offsets(desc, args.segments, parts.offsets, offset_strides(key.shape, false), bindings, stream);
  }
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
  if (!desc.uniform) {
    settle_rows(desc, args.segments, {{args.o}, {args.lse}}, stream);
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
  const auto own_or = [](std::uint16_t* own, const TensorView& view) -> void* { return own != nullptr ? own : view.data; };

  Bindings bindings(desc);
  bindings.bind_one();
  bindings.bind(kQ, args.q.data);
  bindings.bind(kK, args.k.data);
  bindings.bind(kV, args.v.data);
  bindings.bind(kO, args.o.data);
  bindings.bind(kGradO, args.grad_o.data);
  bindings.bind(kGradQ, own_or(parts.grad_q, args.grad_q));
  bindings.bind(kGradK, own_or(parts.grad_k, args.grad_k));
  bindings.bind(kGradV, own_or(parts.grad_v, args.grad_v));
  bindings.bind(kLse, desc.uniform ? parts.lse : args.lse.data);
  bindings.bind(kGradOSum, parts.grad_o_sum);
  if (parts.grad_q_sum != nullptr) bindings.bind(kGradQSum, parts.grad_q_sum);
  if (parts.grad_k_heads != nullptr) {
    bindings.bind(kGradKHeads, parts.grad_k_heads);
    bindings.bind(kGradVHeads, parts.grad_v_heads);
  }
  if (desc.uniform) {
    check(launch_transpose_f32(args.lse.as<float>(), parts.lse, key.shape.batch, key.shape.len, desc.num_heads, stream),
          "transpose_f32");
  } else {
    derive_offsets(desc, args.segments, parts.offsets, offset_strides(key.shape, true), bindings, stream);
  }
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
  if (!desc.uniform) {
    settle_rows(desc, args.segments,
                {{args.grad_q, parts.grad_q}, {args.grad_k, parts.grad_k}, {args.grad_v, parts.grad_v}}, stream);
  }
}

}  // namespace ida::cuda
