// The model on a device: planned memory, one training step over a global batch, validation losses, state in and out.
//
// Memory is measured by running the step against a dry arena, then taken once; nothing is allocated on the device later.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "eval/generate.h"
#include "model/decoder.h"
#include "ops/context.h"
#include "optim/optimizer.h"
#include "precision/recipe.h"
#include "runtime/device.h"
#include "train/step_graphs.h"

namespace ida::train {

// The factor at which the loss gradient enters backward: 1 / targets of the micro-batch, 1 / targets of the global
// batch, or 1. Removed in f32 while weight gradients are accumulated, so the update does not depend on it in exact math.
enum class BackwardScale : std::uint8_t { kMicroBatchMean, kGlobalMean, kSum };

struct EngineSpec {
  model::ModelConfig model;
  precision::Recipe recipe;
  optim::OptimizerConfig optimizer;
  std::int64_t micro_batch_rows = 1;  // sequences per micro-batch
  std::int64_t seq_len = 0;
  model::Recompute recompute = model::Recompute::kNone;
  BackwardScale backward_scale = BackwardScale::kMicroBatchMean;
  precision::EnginePolicy engine_policy = precision::EnginePolicy::kEither;
  bool fallback_is_error = false;
  bool deterministic = false;             // the same bits in every repetition, where a device does not give them anyway
  bool graphs = true;                     // recorded work is replayed where the device can
  eval::GenerateShape sample_shape = {};  // text generated from the weights in training; num_sequences 0: none
  std::int64_t max_positions = 0;         // rows of the RoPE table; at least seq_len
  std::int64_t micro_batch_tokens() const { return micro_batch_rows * seq_len; }
};

struct MemoryPlan {
  std::int64_t total_bytes = 0;      // the arena
  runtime::BytesByClass by_class{};  // at the peak
  std::int64_t outside_bytes = 0;    // what the process holds on the device beside it
  // What a memory limit bounds.
  std::int64_t device_bytes() const { return total_bytes + outside_bytes; }
  std::string to_string() const;  // "600.0 MiB (576.0 MiB of them the device's context and libraries)"
};

// What one micro-batch and one update do, from a dry run.
struct StepPlan {
  MemoryPlan memory;
  ops::SitePlan sites;
  ops::EngineCounters micro_batch_calls;
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> micro_batch_ops;
  double micro_batch_gemm_flops = 0.0;
  std::vector<ops::Preparation> preparations;
};

struct StepResult {
  double loss = 0.0;       // nats per target over the global batch
  double grad_norm = 0.0;  // before clipping
  std::int64_t targets = 0;
  bool finite = true;                        // loss and norm
  std::vector<double> source_nll;            // [sources] sums over targets
  std::vector<std::int64_t> source_targets;  // [sources]
};

// Plans without allocating. `device` is data: the card need not be there.
StepPlan plan_step(const EngineSpec& spec, const runtime::DeviceInfo& device, const ops::Backend& backend);

class Engine {
 public:
  // Takes the planned memory from `device`; throws (kRuntime) naming plan and limit when it does not fit
  // `memory_limit_bytes` (0: what the device has).
  Engine(const EngineSpec& spec, runtime::Device& device, const ops::Backend& backend, std::int64_t memory_limit_bytes = 0);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Loss and gradient of a global batch (rows a multiple of micro_batch_rows), the loss also by data source. The
  // gradient stays on the device. In two parts, so that the caller can prepare the next batch while the device works;
  // `finish` takes the batch that `enqueue` was given.
  void enqueue(const data::Batch& global);
  StepResult finish(const data::Batch& global, std::int64_t num_sources = 1);
  StepResult accumulate(const data::Batch& global, std::int64_t num_sources = 1) {
    enqueue(global);
    return finish(global, num_sources);
  }
  // Applies the accumulated gradient as update number `step` (from 1).
  void update(std::int64_t step, double lr, double norm);

  // nll of every position of a batch of at most micro_batch_rows rows; 0 where nothing is predicted.
  void evaluate(const data::Batch& batch, std::span<float> nll);

  // Host copies of flat buffers. Masters set the weights too (rounded to the compute type).
  void set_masters(std::span<const float> masters);
  void read_buffer(const TensorView& buffer, void* host) const;
  void write_buffer(const TensorView& buffer, const void* host);

  const EngineSpec& spec() const { return spec_; }
  const model::ParamTable& table() const { return table_; }
  const model::Decoder& decoder() const { return decoder_; }
  const model::ModelBuffers& buffers() const { return buffers_; }
  const optim::OptimizerState& optimizer_state() const { return state_; }
  const ops::SitePlan& site_plan() const { return plan_.sites; }
  const StepPlan& plan() const { return plan_; }
  ops::Context& context() { return *context_; }
  const StepGraphs& graphs() const { return *graphs_; }
  // Time the constructor took to prepare implementations.
  double preparation_ms() const { return preparation_ms_; }
  runtime::Device& device() const { return device_; }
  const runtime::Arena& arena() const { return *arena_; }

 private:
  model::LossScale loss_scale(std::int64_t micro_targets, std::int64_t global_targets) const;
  struct HostSlot {
    model::BatchViews batch;
    float* nll = nullptr;
  };
  HostSlot slot(std::int64_t index) const;
  std::int64_t slot_bytes() const;
  void reserve_slots(std::int64_t count);
  // Copies a micro-batch into host slot `index` and enqueues its way to the device.
  void upload(const data::Batch& micro, std::int64_t index, const model::LossScale& scale);
  void clear(const TensorView& flat, const model::ElemRange& range);

  EngineSpec spec_;
  runtime::Device& device_;
  model::ParamTable table_;
  model::Decoder decoder_;
  optim::Optimizer optimizer_;
  StepPlan plan_;
  void* memory_ = nullptr;
  std::unique_ptr<runtime::Arena> arena_;
  std::unique_ptr<ops::Context> context_;
  model::ModelBuffers buffers_;
  optim::OptimizerState state_;
  std::unique_ptr<StepGraphs> graphs_;
  double preparation_ms_ = 0.0;
  model::BatchViews batch_;
  TensorView nll_;
  data::Batch micro_;        // reused
  void* staging_ = nullptr;  // host slots, one a micro-batch of the step
  std::int64_t num_slots_ = 0;
};

}  // namespace ida::train
