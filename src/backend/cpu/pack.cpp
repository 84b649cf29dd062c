#include "backend/cpu/pack.h"

#include "backend/cpu/quantize.h"
#include "backend/cpu/rms_norm.h"
#include "backend/cpu/swiglu.h"

namespace ida::cpu {
namespace {

const ops::PackLists& lists() {
  static const ops::PackLists value{.rms_norm_forward = rms_norm_forward_impls(),
                                    .rms_norm_backward = rms_norm_backward_impls(),
                                    .swiglu_forward = swiglu_forward_impls(),
                                    .swiglu_backward = swiglu_backward_impls(),
                                    .quantize = quantize_impls()};
  return value;
}

ops::Refusal supports(const ops::PackDesc& desc, const runtime::DeviceInfo&) { return ops::refuse_pack(desc); }
std::int64_t workspace_bytes(const ops::PackDesc& desc, const runtime::DeviceInfo& device) {
  return ops::composed_pack_workspace_bytes(lists(), desc, device);
}
void run(const ops::PackDesc& desc, const ops::PackArgs& args, const ops::Launch& launch) {
  ops::run_composed_pack(lists(), desc, args, launch);
}

}  // namespace

ops::PackList pack_impls() { return {{"cpu.composed", supports, workspace_bytes, run}}; }

}  // namespace ida::cpu
