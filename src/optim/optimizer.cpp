#include "optim/optimizer.h"

#include <cmath>

namespace ida::optim {

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<ParamSlice> params, std::int64_t total_elems)
    : config_(config), params_(std::move(params)), total_elems_(total_elems) {
  for (const ParamSlice& p : params_) {
    const bool decay = config_.decay == DecaySet::kAll || p.is_matrix;
    ranges_.push_back({.offset = p.offset_elems, .size = p.numel, .decay = decay ? 1 : 0});
  }
  num_blocks_ = ops::number_blocks(ranges_);
}

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
  const auto num_tensors = static_cast<std::int64_t>(params_.size());
  state.ranges = arena.allocate(DType::kI64, num_tensors, 4, MemoryClass::kOptimizerState, "tensor_ranges");
  state.sums = arena.allocate(DType::kF64, 1, num_tensors, MemoryClass::kOptimizerState, "gradient_sums");
  return state;
}

void Optimizer::upload_ranges(runtime::Device& device, const OptimizerState& state) const {
  device.copy_to_device(state.ranges.data, ranges_.data(), state.ranges.size_bytes());
}

void Optimizer::enqueue_norm(ops::Context& context, const TensorView& grads, const OptimizerState& state) const {
  ops::sum_squares(
      context, {.size = total_elems_, .num_tensors = static_cast<std::int64_t>(ranges_.size()), .num_blocks = num_blocks_},
      {.ranges = state.ranges, .x = grads, .result = state.sums});
}

double Optimizer::read_norm(runtime::Device& device, const OptimizerState& state) const {
  std::vector<double> sums(params_.size());
  device.copy_to_host(sums.data(), state.sums.data, state.sums.size_bytes());
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

void Optimizer::upload_scalars(runtime::Device& device, const OptimizerState& state, std::int64_t step, double lr,
                               double norm) const {
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
  device.copy_to_device(state.scalars.data, &scalars, sizeof(scalars));
}

void Optimizer::enqueue_step(ops::Context& context, const OptimizerState& state, const TensorView& weights,
                             const TensorView& grads) const {
  ops::optimizer_step(context,
                      {.kind = config_.kind,
                       .size = total_elems_,
                       .num_tensors = static_cast<std::int64_t>(ranges_.size()),
                       .num_blocks = num_blocks_,
                       .weight_dtype = weights.dtype,
                       .state_dtype = config_.state_dtype},
                      {.scalars = state.scalars,
                       .ranges = state.ranges,
                       .grad = grads,
                       .master = state.master,
                       .m = state.m,
                       .v = state.v,
                       .weight = weights});
}

}  // namespace ida::optim
