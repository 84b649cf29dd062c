#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

// Everything is rounded operation by operation, as in the definition: the bits are the same.
struct Step {
  const ops::OptimizerScalars& s;
  float keep;  // 1 - lr * weight_decay

  template <typename State, typename Lanes>
  F32 adamw(F32 p, F32 g, State* m_at, State* v_at, Lanes lanes) const {
    const F32 m = load(m_at, lanes) * s.beta1 + g * (1.0f - s.beta1);
    const F32 v = load(v_at, lanes) * s.beta2 + g * g * (1.0f - s.beta2);
    store(m_at, m, lanes);
    store(v_at, v, lanes);
    const F32 denominator = square_root(v / s.bias_correction2) + s.eps;
    return p * keep - (m / s.bias_correction1) * s.lr / denominator;
  }

  template <typename State, typename Lanes>
  F32 lion(F32 p, F32 g, State* m_at, Lanes lanes) const {
    const F32 m = load(m_at, lanes);
    const F32 direction = m * s.beta1 + g * (1.0f - s.beta1);
    store(m_at, m * s.beta2 + g * (1.0f - s.beta2), lanes);
    const F32 one = broadcast(1.0f);
    // NaN has no sign: it passes through, as it does in AdamW.
    const F32 sign = direction > 0.0f ? one : (direction < 0.0f ? -one : direction);
    return p * keep - sign * s.lr;
  }
};

template <typename Weight, typename State>
void update(const ops::OptimizerDesc& desc, const ops::OptimizerArgs& args, bool decay, std::int64_t begin,
            std::int64_t end) {
  const auto& scalars = *static_cast<const ops::OptimizerScalars*>(args.scalars.data);
  const Step step{scalars, decay ? 1.0f - scalars.lr * scalars.weight_decay : 1.0f};
  const float* grad = static_cast<const float*>(args.grad.data) + begin;
  float* master = static_cast<float*>(args.master.data) + begin;
  Weight* weight = static_cast<Weight*>(args.weight.data) + begin;
  State* m = static_cast<State*>(args.m.data) + begin;
  State* v = desc.kind == ops::OptimizerKind::kAdamW ? static_cast<State*>(args.v.data) + begin : nullptr;
  const bool separate = args.weight.data != args.master.data;
  for_vectors(end - begin, [&](std::int64_t c, auto lanes) {
    const F32 g = load(grad + c, lanes) * scalars.grad_scale;
    const F32 p = load(master + c, lanes);
    const F32 updated = v != nullptr ? step.adamw(p, g, m + c, v + c, lanes) : step.lion(p, g, m + c, lanes);
    store(master + c, updated, lanes);
    if (separate) store(weight + c, updated, lanes);
  });
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void optimizer(const ops::OptimizerDesc& desc, const ops::OptimizerArgs& args, bool decay, Index begin, Index end) {
  with_element_type(desc.weight_dtype, [&](auto weight) {
    with_element_type(desc.state_dtype,
                      [&](auto state) { update<decltype(weight), decltype(state)>(desc, args, decay, begin, end); });
  });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
