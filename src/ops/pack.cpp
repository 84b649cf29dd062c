#include "ops/pack.h"

#include <algorithm>

namespace ida::ops {
namespace {

constexpr std::int64_t kAlignment = 256;  // of workspaces
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::int64_t matrix_bytes(const PackDesc& desc) {
  const QuantizeDesc& q = desc.quantize;
  return desc.keeps_matrix ? 0 : aligned(q.rows * q.cols * dtype_size_bytes(q.dtype));
}

QuantizeDesc quantize_desc(const PackDesc& desc) {
  QuantizeDesc q = desc.quantize;
  q.has_amax |= producer_finds_amax(q);
  return q;
}

// The workspace: the matrix, its amax, and what either op needs.
template <typename Desc, typename Args>
std::int64_t op_workspace_bytes(const ImplList<Desc, Args>& list, const Desc& desc, const runtime::DeviceInfo& device) {
  const Impl<Desc, Args>& impl = choose(list, desc, device, "pack");
  return impl.workspace_bytes == nullptr ? 0 : impl.workspace_bytes(desc, device);
}

template <typename Desc, typename Args>
void run_op(const ImplList<Desc, Args>& list, const Desc& desc, const Args& args, const Launch& launch) {
  choose(list, desc, launch.device, "pack").run(desc, args, launch);
}

}  // namespace

std::string_view producer_name(Producer producer) {
  switch (producer) {
    case Producer::kRmsNormForward: return "rms_norm_forward";
    case Producer::kRmsNormBackward: return "rms_norm_backward";
    case Producer::kSwigluForward: return "swiglu_forward";
    case Producer::kSwigluBackward: return "swiglu_backward";
  }
  return "?";
}

std::string PackDesc::to_string() const {
  return fmt::format("{}{}: {}", producer_name(producer), keeps_matrix ? ", kept" : "", quantize.to_string());
}

RmsNormDesc PackDesc::rms_norm() const {
  return {.rows = quantize.rows, .cols = quantize.cols, .num_groups = 1, .eps = eps, .dtype = quantize.dtype};
}

SwigluDesc PackDesc::swiglu() const {
  const std::int64_t cols = producer == Producer::kSwigluBackward ? quantize.cols / 2 : quantize.cols;
  return {.rows = quantize.rows, .cols = cols, .dtype = quantize.dtype};
}

Refusal refuse_pack(const PackDesc& desc) {
  if (const Refusal refusal = refuse_choices(desc.quantize)) return refusal;
  if (desc.quantize.error_feedback) return {RefusalKind::kShape, "error feedback is of a matrix that is kept by its owner"};
  if (desc.producer == Producer::kSwigluBackward && desc.quantize.cols % 2 != 0)
    return {RefusalKind::kShape, "gate and up have the same size"};
  if (desc.producer == Producer::kRmsNormBackward && !desc.keeps_matrix)
    return {RefusalKind::kShape, "the residual stream's gradient is always written"};
  return kAccepted;
}

bool producer_finds_amax(const QuantizeDesc& desc) {
  bool wanted = false;
  for (const formats::QuantFormat& f : {desc.by_rows, desc.by_cols}) {
    if (!formats::needs_tensor_amax(f)) continue;
    if (f.hadamard != formats::Hadamard::kNone) return false;
    wanted = true;
  }
  return wanted && !desc.has_amax;
}

std::int64_t composed_pack_workspace_bytes(const PackLists& lists, const PackDesc& desc,
                                           const runtime::DeviceInfo& device) {
  std::int64_t bytes = 0;
  switch (desc.producer) {
    case Producer::kRmsNormForward: bytes = op_workspace_bytes(lists.rms_norm_forward, desc.rms_norm(), device); break;
    case Producer::kRmsNormBackward: bytes = op_workspace_bytes(lists.rms_norm_backward, desc.rms_norm(), device); break;
    case Producer::kSwigluForward: bytes = op_workspace_bytes(lists.swiglu_forward, desc.swiglu(), device); break;
    case Producer::kSwigluBackward: bytes = op_workspace_bytes(lists.swiglu_backward, desc.swiglu(), device); break;
  }
  return matrix_bytes(desc) + kAlignment + std::max(bytes, op_workspace_bytes(lists.quantize, quantize_desc(desc), device));
}

void run_composed_pack(const PackLists& lists, const PackDesc& desc, const PackArgs& args, const Launch& launch) {
  const QuantizeDesc quantize = quantize_desc(desc);
  TensorView matrix{launch.workspace.data(), quantize.dtype, quantize.rows, quantize.cols, quantize.cols};
  std::span<std::byte> rest = launch.workspace.subspan(static_cast<std::size_t>(matrix_bytes(desc)));
  auto* amax = reinterpret_cast<std::uint32_t*>(rest.data());
  const Launch op_launch{launch.device, rest.subspan(kAlignment), launch.queue};
  // The matrix into `to` (its own place where it is kept), its amax where it is of use.
  const auto place = [&](TensorView& to, std::uint32_t*& to_amax) {
    if (!desc.keeps_matrix) to = matrix;
    matrix = to;
    if (producer_finds_amax(desc.quantize)) to_amax = amax;
  };
  PackArgs own = args;
  switch (desc.producer) {
    case Producer::kRmsNormForward: {
      auto& op = std::get<RmsNormForwardArgs>(own.producer);
      place(op.y, op.amax);
      run_op(lists.rms_norm_forward, desc.rms_norm(), op, op_launch);
      break;
    }
    case Producer::kRmsNormBackward: {
      auto& op = std::get<RmsNormBackwardArgs>(own.producer);
      place(op.grad_x, op.amax);
      run_op(lists.rms_norm_backward, desc.rms_norm(), op, op_launch);
      break;
    }
    case Producer::kSwigluForward: {
      auto& op = std::get<SwigluForwardArgs>(own.producer);
      place(op.y, op.amax);
      run_op(lists.swiglu_forward, desc.swiglu(), op, op_launch);
      break;
    }
    case Producer::kSwigluBackward: {
      auto& op = std::get<SwigluBackwardArgs>(own.producer);
      place(op.grad_gate_up, op.amax);
      run_op(lists.swiglu_backward, desc.swiglu(), op, op_launch);
      break;
    }
  }
  own.quantize.x = matrix;
  if (producer_finds_amax(desc.quantize)) own.quantize.amax = amax;
  run_op(lists.quantize, quantize, own.quantize, op_launch);
}

}  // namespace ida::ops
