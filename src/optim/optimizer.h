// The optimizer: state in the arena, gradient norm, one update over every parameter.
//
// The global norm is sqrt of the sum of per-tensor f64 sums of squares in parameter order: the same number on any
// device layout. A tied matrix is one parameter.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ops/context.h"
#include "runtime/device.h"

namespace ida::optim {

enum class DecaySet : std::uint8_t { kMatrices, kAll };

struct OptimizerConfig {
  ops::OptimizerKind kind = ops::OptimizerKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: no clipping
  DecaySet decay = DecaySet::kMatrices;
  DType state_dtype = DType::kF32;
};

// One parameter tensor's place in the flat buffers.
struct ParamSlice {
  std::string name;
  std::int64_t offset_elems = 0;
  std::int64_t numel = 0;
  bool is_matrix = false;
};

// Flat buffers of the optimizer, [1, total_elems] each.
struct OptimizerState {
  TensorView master;   // f32; the weights themselves when those are f32
  TensorView m;        // state dtype
  TensorView v;        // state dtype; empty for Lion
  TensorView scalars;  // [1, 8] f32
  TensorView ranges;   // [number of tensors, 4] i64: ops::TensorRange
  TensorView sums;     // [1, number of tensors] f64
};

class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, std::vector<ParamSlice> params, std::int64_t total_elems);

  // Allocates from the context's arena. `weights` is the flat weight buffer.
  OptimizerState allocate(runtime::Arena& arena, const TensorView& weights) const;
  // Writes the table of tensors into `state`, once, before the calls below.
  void upload_ranges(runtime::Device& device, const OptimizerState& state) const;

  // Global L2 norm of the flat gradient [1, total_elems] f32: the work, then the waiting for its result.
  void enqueue_norm(ops::Context& context, const TensorView& grads, const OptimizerState& state) const;
  double read_norm(runtime::Device& device, const OptimizerState& state) const;

  // Update number `step` (from 1) at learning rate `lr`, with the gradient clipped by its `norm` (clip_norm / norm when
  // norm exceeds it): what changes from step to step, then the work, which is always the same.
  void upload_scalars(runtime::Device& device, const OptimizerState& state, std::int64_t step, double lr,
                      double norm) const;
  void enqueue_step(ops::Context& context, const OptimizerState& state, const TensorView& weights,
                    const TensorView& grads) const;

  const OptimizerConfig& config() const { return config_; }
  const std::vector<ParamSlice>& params() const { return params_; }

 private:
  OptimizerConfig config_;
  std::vector<ParamSlice> params_;
  std::int64_t total_elems_;
  std::vector<ops::TensorRange> ranges_;
  std::int64_t num_blocks_;
};

}  // namespace ida::optim
