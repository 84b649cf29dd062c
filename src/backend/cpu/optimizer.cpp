#include "backend/cpu/optimizer.h"

#include <cmath>

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::Launch;
using ops::OptimizerArgs;
using ops::OptimizerDesc;
using ops::OptimizerScalars;
static_assert(sizeof(OptimizerScalars) == 8 * sizeof(float));

ops::Refusal supports(const OptimizerDesc& desc, const runtime::DeviceInfo&) {
  if (is_float_dtype(desc.weight_dtype) && is_float_dtype(desc.state_dtype)) return ops::kAccepted;
  return {ops::RefusalKind::kDType, "takes f32 and bf16"};
}

float sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); }

// State is rounded when stored; the update of this step uses it before that rounding.
template <typename State>
float adamw(const OptimizerScalars& s, float p, float g, State& m_at, State& v_at) {
  const float m = to_f32(m_at) * s.beta1 + g * (1.0f - s.beta1);
  const float v = to_f32(v_at) * s.beta2 + g * g * (1.0f - s.beta2);
  m_at = from_f32<State>(m);
  v_at = from_f32<State>(v);
  return p - (m / s.bias_correction1) * s.lr / (std::sqrt(v / s.bias_correction2) + s.eps);
}

template <typename State>
float lion(const OptimizerScalars& s, float p, float g, State& m_at) {
  const float m = to_f32(m_at);
  m_at = from_f32<State>(m * s.beta2 + g * (1.0f - s.beta2));
  return p - sign(m * s.beta1 + g * (1.0f - s.beta1)) * s.lr;
}

template <typename Weight, typename State>
void step_plain(const OptimizerDesc& desc, const OptimizerArgs& args, const ops::TensorRange& range) {
  const OptimizerScalars& s = *static_cast<const OptimizerScalars*>(args.scalars.data);
  const float keep = range.decay != 0 ? 1.0f - s.lr * s.weight_decay : 1.0f;
  for (Index i = range.offset; i < range.offset + range.size; ++i) {
    const float g = args.grad.as<float>()[i] * s.grad_scale;
    const float decayed = args.master.as<float>()[i] * keep;
    State& m = args.m.as<State>()[i];
    const float p =
        desc.kind == ops::OptimizerKind::kAdamW ? adamw(s, decayed, g, m, args.v.as<State>()[i]) : lion(s, decayed, g, m);
    args.master.as<float>()[i] = p;
    if (args.weight.data != args.master.data) args.weight.as<Weight>()[i] = from_f32<Weight>(p);
  }
}

void step_definition(const OptimizerDesc& desc, const OptimizerArgs& args, const Launch&) {
  with_element_type(desc.weight_dtype, [&](auto weight) {
    with_element_type(desc.state_dtype, [&](auto state) {
      for (Index t = 0; t < desc.num_tensors; ++t)
        step_plain<decltype(weight), decltype(state)>(desc, args, ranges_of(args.ranges)[t]);
    });
  });
}

void step_vector(const OptimizerDesc& desc, const OptimizerArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.num_blocks, kPieceElements / ops::kRangeBlock, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const ops::RangeBlock block = ops::block_of(ranges_of(args.ranges), desc.num_tensors, i);
      kernels.optimizer(desc, args, block.range->decay != 0, block.begin, block.end);
    }
  });
}

}  // namespace

ops::OptimizerList optimizer_impls() {
  return {{"cpu.vector", supports, nullptr, step_vector}, {"cpu.definition", supports, nullptr, step_definition}};
}

}  // namespace ida::cpu
