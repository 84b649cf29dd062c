// Quantises what another op makes, in its place: the matrix between the two is written only where it is kept. Codes and
// scales are those of the op followed by ops::quantize, bit for bit on the same device.
//
// Where a tensor-wide amax is needed and not given, it is measured on the way.
#pragma once
#include <string>
#include <variant>

#include "ops/quantize.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace ida::ops {

enum class Producer : std::uint8_t { kRmsNormForward, kRmsNormBackward, kSwigluForward, kSwigluBackward };
std::string_view producer_name(Producer producer);  // "rms_norm_forward", ...

struct PackDesc {
  Producer producer = Producer::kRmsNormForward;
  // Of the matrix made: y, grad_x, or grad_gate_up [rows, 2 * intermediate size]. No error feedback.
  QuantizeDesc quantize = {};
  float eps = 1e-6f;         // RMSNorm forward
  bool keeps_matrix = true;  // written too; always by RMSNorm's backward, the residual stream's gradient
  std::string to_string() const;
  RmsNormDesc rms_norm() const;
  SwigluDesc swiglu() const;
};

// The producer's arguments, at its place in Producer, with an empty view for a matrix that is not kept; grad_gate_up may
// not be gate_up. Of `quantize` x is not read. Where the matrix is not kept, rows of operands and results begin on 16 bytes
// (an error on CUDA otherwise, where tiles take the problem).
struct PackArgs {
  std::variant<RmsNormForwardArgs, RmsNormBackwardArgs, SwigluForwardArgs, SwigluBackwardArgs> producer;
  QuantizeArgs quantize = {};
};

using PackList = ImplList<PackDesc, PackArgs>;

// Why no implementation takes a description: choices that ops::quantize refuses, or that have no meaning here.
Refusal refuse_pack(const PackDesc& desc);

// Whether the tensor's amax is neither given nor that of transformed values: the producer can find it as it writes.
bool producer_finds_amax(const QuantizeDesc& desc);

// The op and then ops::quantize, each by the first of its list that takes the problem: what a pack means, and what serves
// problems that no fused kernel takes. A matrix that is not kept lies in the workspace.
struct PackLists {
  RmsNormForwardList rms_norm_forward;
  RmsNormBackwardList rms_norm_backward;
  SwigluForwardList swiglu_forward;
  SwigluBackwardList swiglu_backward;
  QuantizeList quantize;
};
std::int64_t composed_pack_workspace_bytes(const PackLists& lists, const PackDesc& desc, const runtime::DeviceInfo& device);
void run_composed_pack(const PackLists& lists, const PackDesc& desc, const PackArgs& args, const Launch& launch);

}  // namespace ida::ops
