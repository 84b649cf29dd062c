#include "backend/cuda/attention_cudnn.h"

#include <cassert>
#include <limits>

#include "backend/cuda/attention_cudnn_problem.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/kernels/transpose.h"

namespace ida::cuda {
namespace {

using enum AttentionTensor;
using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;

// Addresses by tensor id, scalars included; those live here until execute returns.
class Bindings {
 public:
  explicit Bindings(const AttentionDesc& desc) : scale_(desc.scale) {
    bind(kScale, &scale_);
    bind(kMasked, &masked_);
  }
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;

  void bind(AttentionTensor tensor, const void* address) { list_.emplace_back(id_of(tensor), const_cast<void*>(address)); }
  void bind_one() { bind(kOne, &one_); }
  std::span<const std::pair<std::int64_t, void*>> list() const { return list_; }

 private:
  float scale_;
  float masked_ = -std::numeric_limits<float>::infinity();
  float one_ = 1.0f;
  std::vector<std::pair<std::int64_t, void*>> list_;
};

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
  assert(args.lse.empty() || args.lse.contiguous());

  Bindings bindings(desc);
  bindings.bind(kQ, args.q.data);
  bindings.bind(kK, args.k.data);
  bindings.bind(kV, args.v.data);
  bindings.bind(kO, args.o.data);
  bindings.bind(kLse, parts.lse);
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
  if (!args.lse.empty()) {
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

  Bindings bindings(desc);
  bindings.bind_one();
  bindings.bind(kQ, args.q.data);
  bindings.bind(kK, args.k.data);
  bindings.bind(kV, args.v.data);
  bindings.bind(kO, args.o.data);
  bindings.bind(kGradO, args.grad_o.data);
  bindings.bind(kGradQ, args.grad_q.data);
  bindings.bind(kGradK, args.grad_k.data);
  bindings.bind(kGradV, args.grad_v.data);
  bindings.bind(kLse, parts.lse);
  bindings.bind(kGradOSum, parts.grad_o_sum);
  if (parts.grad_q_sum != nullptr) bindings.bind(kGradQSum, parts.grad_q_sum);
  check(launch_transpose_f32(args.lse.as<float>(), parts.lse, key.shape.batch, key.shape.len, desc.num_heads, stream),
        "transpose_f32");
  check_cudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  chosen.execute(handle_, bindings.list(), parts.library);
}

}  // namespace ida::cuda
