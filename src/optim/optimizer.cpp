#include "optim/optimizer.h"

#include <cmath>

namespace ida::optim {

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<ParamSlice> params, std::int64_t total_elems)
    : config_(config), params_(std::move(params)), total_elems_(total_elems) {}

OptimizerState Optimizer::allocate(runtime::Arena& arena, const TensorView& weights) const {
  using runtime::MemoryClass;
  OptimizerState state;
  state.master = weights.dtype == DType::kF32
                     ? weights
                     : arena.allocate(DType::kF32, 1, total_elems_, MemoryClass::kMasters, "master");
  state.m = arena.allocate(config_.state_dtype, 1, total_elems_, MemoryClass::kOptimizerState, "exp_avg");
  if (config_.kind == ops::OptimizerKind::kAdamW)
    state.v = arena.allocate(config_.state_dtype, 1, total_elems_, MemoryClass::kOptimizerState, "exp_avg_sq");
  state.scalars = arena.allocate(DType::kF32, 1, 8, MemoryClass::kOptimizerState, "optimizer_scalars");
  state.sums = arena.allocate(DType::kF64, 1, static_cast<std::int64_t>(params_.size()), MemoryClass::kOptimizerState,
                              "gradient_sums");
  return state;
}

double Optimizer::gradient_norm(ops::Context& context, runtime::Device& device, const TensorView& grads,
                                const OptimizerState& state) const {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const ParamSlice& p = params_[i];
    ops::sum_squares(
        context, {.size = p.numel},
        {.x = grads.col_slice(p.offset_elems, p.numel), .result = state.sums.col_slice(static_cast<std::int64_t>(i), 1)});
  }
  if (context.dry()) return 0.0;
  std::vector<double> sums(params_.size());
  device.copy_to_host(sums.data(), state.sums.data, state.sums.size_bytes());
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

void Optimizer::step(ops::Context& context, runtime::Device& device, const OptimizerState& state, const TensorView& weights,
                     const TensorView& grads, std::int64_t step, double lr, double norm) const {
  const auto t = static_cast<double>(step);
  ops::OptimizerScalars scalars{.lr = static_cast<float>(lr),
                                .beta1 = static_cast<float>(config_.beta1),
                                .beta2 = static_cast<float>(config_.beta2),
                                .eps = static_cast<float>(config_.eps),
                                .bias_correction1 = static_cast<float>(1.0 - std::pow(config_.beta1, t)),
                                .bias_correction2 = static_cast<float>(1.0 - std::pow(config_.beta2, t)),
                                .grad_scale = config_.clip_norm > 0.0 && norm > config_.clip_norm
                                                  ? static_cast<float>(config_.clip_norm / norm)
                                                  : 1.0f,
                                .weight_decay = static_cast<float>(config_.weight_decay)};
  if (!context.dry()) device.copy_to_device(state.scalars.data, &scalars, sizeof(scalars));
  for (const ParamSlice& p : params_) {
    const auto slice = [&](const TensorView& flat) {
      return flat.empty() ? TensorView{} : flat.col_slice(p.offset_elems, p.numel);
    };
    ops::optimizer_step(context,
                        {.kind = config_.kind,
                         .size = p.numel,
                         .decay = config_.decay == DecaySet::kAll || p.is_matrix,
                         .weight_dtype = weights.dtype,
                         .state_dtype = config_.state_dtype},
                        {.scalars = state.scalars,
                         .grad = slice(grads),
                         .master = slice(state.master),
                         .m = slice(state.m),
                         .v = slice(state.v),
                         .weight = slice(weights)});
  }
}

}  // namespace ida::optim
