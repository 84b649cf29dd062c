#include "ops/pack.h"

#include "backend/cuda/kernels/rms_norm.h"
#include "backend/cuda/kernels/swiglu.h"
#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"
#include "backend/cuda/quantize_problem.h"

namespace ida::cuda {
namespace {

using ops::PackArgs;
using ops::PackDesc;
using ops::Producer;

const ops::PackLists& lists() {
  static const ops::PackLists value{.rms_norm_forward = rms_norm_forward_impls(),
                                    .rms_norm_backward = rms_norm_backward_impls(),
                                    .swiglu_forward = swiglu_forward_impls(),
                                    .swiglu_backward = swiglu_backward_impls(),
                                    .quantize = quantize_impls()};
  return value;
}

ops::Refusal takes_any(const PackDesc& desc, const runtime::DeviceInfo& device) {
  if (const ops::Refusal refusal = refuse_other_devices(device)) return refusal;
  return ops::refuse_pack(desc);
}
std::int64_t composed_workspace_bytes(const PackDesc& desc, const runtime::DeviceInfo& device) {
  return ops::composed_pack_workspace_bytes(lists(), desc, device);
}
void composed(const PackDesc& desc, const PackArgs& args, const ops::Launch& launch) {
  ops::run_composed_pack(lists(), desc, args, launch);
}

// What the tiles cannot make on the way: they see 128 columns of a row.
ops::Refusal takes_tiles(const PackDesc& desc, const runtime::DeviceInfo& device) {
  if (const ops::Refusal refusal = takes_any(desc, device)) return refusal;
  if (desc.producer == Producer::kRmsNormBackward)
    return {ops::RefusalKind::kShape, "an element needs a sum over its row, and grad_x is written in any case"};
  const ops::QuantizeDesc& q = desc.quantize;
  if (const ops::Refusal refusal = refuse_quantize_tiles(q, device)) return refusal;
  if (desc.producer == Producer::kSwigluBackward && desc.swiglu().cols % kQuantizeTile != 0)
    return {ops::RefusalKind::kShape, "a gate whose columns are no multiple of 128"};
  for (const formats::QuantFormat& f : {q.by_rows, q.by_cols}) {
    if (f.grid == formats::ScaleGrid::kRow) return {ops::RefusalKind::kShape, "the amax of rows is measured in memory"};
    if (formats::needs_tensor_amax(f) && f.hadamard != formats::Hadamard::kNone)
      return {ops::RefusalKind::kShape, "the amax of a transformed tensor is measured in memory"};
  }
  return ops::kAccepted;
}

// No room for a matrix that is not kept: tiles do not need it.
std::int64_t tiled_workspace_bytes(const PackDesc& desc, const runtime::DeviceInfo& device) {
  PackDesc kept = desc;
  kept.keeps_matrix = true;
  return composed_workspace_bytes(kept, device);
}

// The operands, and one pass over them for what tiles have to know: the rows' rstd, the tensor's amax.
ProducedMatrix rms_norm(const PackDesc& desc, const ops::RmsNormForwardArgs& args, std::uint32_t* amax,
                        const ops::Launch& launch) {
  check(launch_rms_norm_forward(desc.quantize.dtype,
                                {.shape = {.rows = desc.quantize.rows, .cols = desc.quantize.cols, .groups = 1},
                                 .x = args.x.data,
                                 .x_stride = args.x.row_stride,
                                 .w = args.w.data,
                                 .rstd = args.rstd.as<float>(),
                                 .amax = amax,
                                 .eps = desc.eps},
                                stream_of(launch)),
        "rms_norm_forward");
  return {.source = MatrixSource::kRmsNorm,
          .x = args.x.data,
          .x_stride = args.x.row_stride,
          .w = args.w.data,
          .rstd = args.rstd.as<float>(),
          .y = desc.keeps_matrix ? args.y.data : nullptr,
          .y_stride = args.y.row_stride};
}
ProducedMatrix swiglu(const PackDesc& desc, const ops::SwigluForwardArgs& args, std::uint32_t* amax,
                      const ops::Launch& launch) {
  const ops::SwigluDesc op = desc.swiglu();
  if (amax != nullptr)
    check(launch_swiglu_forward(op.dtype,
                                {.rows = op.rows,
                                 .cols = op.cols,
                                 .gate_up = args.gate_up.data,
                                 .gate_up_stride = args.gate_up.row_stride,
                                 .amax = amax},
                                stream_of(launch)),
          "swiglu_forward");
  return {.source = MatrixSource::kSwiglu,
          .x = args.gate_up.data,
          .x_stride = args.gate_up.row_stride,
          .gate_cols = op.cols,
          .y = desc.keeps_matrix ? args.y.data : nullptr,
          .y_stride = args.y.row_stride};
}
ProducedMatrix swiglu_backward(const PackDesc& desc, const ops::SwigluBackwardArgs& args, std::uint32_t* amax,
                               const ops::Launch& launch) {
  const ops::SwigluDesc op = desc.swiglu();
  if (amax != nullptr)
    check(launch_swiglu_backward(op.dtype,
                                 {.rows = op.rows,
                                  .cols = op.cols,
                                  .grad_y = args.grad_y.data,
                                  .grad_y_stride = args.grad_y.row_stride,
                                  .gate_up = args.gate_up.data,
                                  .gate_up_stride = args.gate_up.row_stride,
                                  .amax = amax},
                                 stream_of(launch)),
          "swiglu_backward");
  return {.source = MatrixSource::kSwigluBackward,
          .x = args.gate_up.data,
          .x_stride = args.gate_up.row_stride,
          .grad_y = args.grad_y.data,
          .grad_y_stride = args.grad_y.row_stride,
          .gate_cols = op.cols,
          .y = desc.keeps_matrix ? args.grad_gate_up.data : nullptr,
          .y_stride = args.grad_gate_up.row_stride};
}

bool on_vectors(const PackDesc& desc, const PackArgs& args) {
  const auto aligned = [](const TensorView& view) { return lies_on(view, 16); };
  const auto kept = [&](const TensorView& view) { return !desc.keeps_matrix || aligned(view); };
  if (!results_on_vectors(desc.quantize, args.quantize)) return false;
  if (const auto* norm = std::get_if<ops::RmsNormForwardArgs>(&args.producer))
    return aligned(norm->x) && aligned(norm->w) && kept(norm->y);
  if (const auto* forward = std::get_if<ops::SwigluForwardArgs>(&args.producer))
    return aligned(forward->gate_up) && kept(forward->y);
  const auto& backward = std::get<ops::SwigluBackwardArgs>(args.producer);
  return aligned(backward.gate_up) && aligned(backward.grad_y) && kept(backward.grad_gate_up);
}

void tiled(const PackDesc& desc, const PackArgs& args, const ops::Launch& launch) {
  if (!on_vectors(desc, args)) {
    if (!desc.keeps_matrix) fail_runtime("[pack] rows that do not begin on 16 bytes: the matrix has to be kept");
    return composed(desc, args, launch);
  }
  Quantize problem = quantize_problem(desc.quantize, args.quantize, launch);
  std::uint32_t* amax = nullptr;
  if (ops::producer_finds_amax(desc.quantize)) {
    amax = reinterpret_cast<std::uint32_t*>(launch.workspace.data());
    zero_amax(amax, launch);
    problem.amax = amax;
  }
  switch (desc.producer) {
    case Producer::kRmsNormForward:
      problem.produced = rms_norm(desc, std::get<ops::RmsNormForwardArgs>(args.producer), amax, launch);
      break;
    case Producer::kSwigluForward:
      problem.produced = swiglu(desc, std::get<ops::SwigluForwardArgs>(args.producer), amax, launch);
      break;
    default:
      problem.produced = swiglu_backward(desc, std::get<ops::SwigluBackwardArgs>(args.producer), amax, launch);
      break;
  }
  check(launch_quantize_tiled(problem, stream_of(launch)), "pack");
}

}  // namespace

ops::PackList pack_impls() {
  return {{.name = "own.pack_tiled", .supports = takes_tiles, .workspace_bytes = tiled_workspace_bytes, .run = tiled},
          {.name = "own.composed", .supports = takes_any, .workspace_bytes = composed_workspace_bytes, .run = composed}};
}

}  // namespace ida::cuda
