#include "train/engine.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "model/sites.h"
#include "model/upload.h"
#include "train/batch_layout.h"

namespace ida::train {
namespace {

using runtime::MemoryClass;

struct Layout {
  model::ModelBuffers buffers;
  optim::OptimizerState state;
  model::BatchViews batch;
  TensorView nll;
};

std::vector<optim::ParamSlice> param_slices(const model::ParamTable& table) {
  std::vector<optim::ParamSlice> slices;
  for (const model::ParamSpec& p : table.params)
    slices.push_back({.name = p.name, .offset_elems = p.offset_elems, .numel = p.numel(), .is_matrix = p.is_matrix()});
  return slices;
}

// Everything that lives as long as the engine, in a fixed order.
Layout allocate_layout(runtime::Arena& arena, const EngineSpec& spec, const model::ParamTable& table,
                       const optim::Optimizer& optimizer) {
  Layout layout;
  const std::int64_t positions = std::max(spec.max_positions, spec.seq_len);
  const std::int64_t tokens = spec.micro_batch_tokens();
  layout.buffers.weights = arena.allocate(spec.recipe.compute, 1, table.total_elems, MemoryClass::kWeights, "weights");
  layout.buffers.rope_cos =
      arena.allocate(DType::kF32, positions, spec.model.head_dim / 2, MemoryClass::kWeights, "rope_cos");
  layout.buffers.rope_sin =
      arena.allocate(DType::kF32, positions, spec.model.head_dim / 2, MemoryClass::kWeights, "rope_sin");
  layout.buffers.grads = arena.allocate(DType::kF32, 1, table.total_elems, MemoryClass::kGradients, "gradients");
  if (spec.model.tie_word_embeddings)
    layout.buffers.head_grad = arena.allocate(DType::kF32, spec.model.vocab_size, spec.model.hidden_size,
                                              MemoryClass::kGradients, "head_gradient");
  layout.state = optimizer.allocate(arena, layout.buffers.weights);
  layout.batch =
      batch_views(arena.allocate_bytes(BatchLayout::of(tokens).size_bytes, MemoryClass::kBatch, "micro_batch"), tokens);
  layout.nll = arena.allocate(DType::kF32, 1, tokens, MemoryClass::kBatch, "nll");
  return layout;
}

model::BatchViews uniform(model::BatchViews batch, std::int64_t document_len) {
  batch.uniform_document_len = document_len;
  return batch;
}

// A device without memory, for dry runs: an op that reached it would be a bug of ours.
class NoDevice : public runtime::Device {
 public:
  explicit NoDevice(const runtime::DeviceInfo& info) : info_(info) {}
  const runtime::DeviceInfo& info() const override { return info_; }
  void* allocate(std::int64_t) override { return nullptr; }
  void release(void*, std::int64_t) override {}
  void copy_to_device(void*, const void*, std::int64_t) override { assert(false); }
  void copy_to_host(void*, const void*, std::int64_t) override { assert(false); }
  void* allocate_host(std::int64_t) override { return nullptr; }
  void release_host(void*) override {}
  void enqueue_to_device(void*, const void*, std::int64_t) override { assert(false); }
  void enqueue_to_host(void*, const void*, std::int64_t) override { assert(false); }
  void fill_zero(void*, std::int64_t) override { assert(false); }
  void copy_on_device(void*, const void*, std::int64_t) override { assert(false); }
  double time_ms(const std::function<void()>&) override { return 0.0; }
  void synchronize() override {}

 private:
  const runtime::DeviceInfo& info_;
};

}  // namespace

std::string MemoryPlan::to_string() const {
  const std::string outside =
      outside_bytes > 0 ? fmt::format(" ({:.1f} MiB of them the device's context and libraries)", mib(outside_bytes)) : "";
  return fmt::format("{:.1f} MiB{}", mib(device_bytes()), outside);
}

StepPlan plan_step(const EngineSpec& spec, const runtime::DeviceInfo& device, const ops::Backend& backend) {
  StepPlan plan;
  const std::int64_t head_rows = std::min(model::head_chunk_rows(spec.model, device), spec.micro_batch_tokens());
  plan.sites = precision::build_site_plan(spec.recipe, model::gemm_sites(spec.model, spec.micro_batch_tokens(), head_rows),
                                          backend.gemm, device, spec.engine_policy);
  const model::ParamTable table = model::build_param_table(spec.model);
  const model::Decoder decoder(spec.model, table, spec.recipe.compute);
  const optim::Optimizer optimizer(spec.optimizer, param_slices(table), table.total_elems);
  runtime::Arena arena;
  ops::Context context(device, backend, arena);
  context.site_plan = &plan.sites;
  context.deterministic = spec.deterministic;
  const Layout layout = allocate_layout(arena, spec, table, optimizer);
  NoDevice none(device);
  if (spec.sample_shape.num_sequences > 0) eval::plan_generate({context, none, decoder, layout.buffers}, spec.sample_shape);
  decoder.evaluate(context, layout.buffers, layout.batch, layout.nll);
  context.calls = {};
  // Rows that are one document each may take other implementations, with other workspaces.
  for (const std::int64_t document_len : {spec.seq_len, std::int64_t{0}}) {
    for (const auto sum : {model::GradientSum::kStart, model::GradientSum::kContinue}) {
      context.calls = {};
      decoder.train_micro_batch(context, layout.buffers, uniform(layout.batch, document_len), spec.recompute, sum,
                                layout.nll);
    }
  }
  plan.micro_batch_calls = context.calls.gemms;
  plan.micro_batch_ops = context.calls.ops;
  plan.micro_batch_gemm_flops = context.calls.gemm_flops;
  decoder.finish_gradients(context, layout.buffers);
  optimizer.enqueue_norm(context, layout.buffers.grads, layout.state);
  optimizer.enqueue_step(context, layout.state, layout.buffers.weights, layout.buffers.grads);
  plan.preparations = std::move(context.preparations);
  plan.memory = {.total_bytes = arena.high_water_bytes(),
                 .by_class = arena.bytes_at_peak(),
                 .outside_bytes = device.outside_arena_bytes};
  return plan;
}

Engine::Engine(const EngineSpec& spec, runtime::Device& device, const ops::Backend& backend,
               std::int64_t memory_limit_bytes)
    : spec_(spec),
      device_(device),
      table_(model::build_param_table(spec_.model)),
      decoder_(spec_.model, table_, spec_.recipe.compute),
      optimizer_(spec_.optimizer, param_slices(table_), table_.total_elems),
      plan_(plan_step(spec_, device.info(), backend)) {
  const std::int64_t limit = memory_limit_bytes > 0 ? memory_limit_bytes : device.info().memory_bytes;
  if (limit > 0 && plan_.memory.device_bytes() > limit)
    fail_runtime(
        "[memory] the plan needs {} but the limit is {:.1f} MiB: lower train.micro_batch_sequences or data.seq_len, or set "
        "train.recompute = \"block\"",
        plan_.memory.to_string(), mib(limit));
  memory_ = device.allocate(plan_.memory.total_bytes);
  arena_ = std::make_unique<runtime::Arena>(memory_, plan_.memory.total_bytes);
  context_ = std::make_unique<ops::Context>(device.info(), backend, *arena_, device.queue());
  context_->site_plan = &plan_.sites;
  context_->deterministic = spec_.deterministic;
  context_->fallback_is_error = spec_.fallback_is_error;
  graphs_ = std::make_unique<StepGraphs>(device_, *context_, spec_.graphs);
  // Nothing lies in the arena yet: it is scratch.
  const auto before = std::chrono::steady_clock::now();
  for (const ops::Preparation& prepare : plan_.preparations)
    prepare({device_.info(),
             {static_cast<std::byte*>(memory_), static_cast<std::size_t>(plan_.memory.total_bytes)},
             device_.queue()});
  if (!plan_.preparations.empty()) device_.fill_zero(memory_, plan_.memory.total_bytes);
  device_.synchronize();
  preparation_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count();
  Layout layout = allocate_layout(*arena_, spec_, table_, optimizer_);
  buffers_ = layout.buffers;
  state_ = layout.state;
  batch_ = layout.batch;
  nll_ = layout.nll;
  model::upload_rope_tables(device_, spec_.model, buffers_);
  optimizer_.upload_ranges(device_, state_);
}

Engine::~Engine() {
  if (staging_ != nullptr) device_.release_host(staging_);
  if (memory_ != nullptr) device_.release(memory_, plan_.memory.total_bytes);
}

void Engine::read_buffer(const TensorView& buffer, void* host) const {
  device_.copy_to_host(host, buffer.data, buffer.size_bytes());
}
void Engine::write_buffer(const TensorView& buffer, const void* host) {
  device_.copy_to_device(buffer.data, host, buffer.size_bytes());
}

void Engine::set_masters(std::span<const float> masters) {
  write_buffer(state_.master, masters.data());
  round_masters();
}

void Engine::initialize(std::uint64_t seed) {
  for (std::size_t p = 0; p < table_.params.size(); ++p) {
    const model::ParamSpec& spec = table_.params[p];
    const bool random = spec.init == model::InitKind::kNormal;
    ops::fill(*context_, {.size = spec.numel()},
              {.y = state_.master.col_slice(spec.offset_elems, spec.numel()),
               .value = spec.init == model::InitKind::kOnes ? 1.0f : 0.0f,
               .std_dev = random ? static_cast<float>(spec.init_std) : 0.0f,
               .seed = seed,
               .stream = p});
  }
  round_masters();
  device_.synchronize();
}

void Engine::round_masters() {
  if (spec_.recipe.compute == DType::kF32) return;  // they are the weights
  ops::convert(*context_, {.rows = 1, .cols = table_.total_elems, .from = DType::kF32, .to = spec_.recipe.compute},
               {.x = state_.master, .y = buffers_.weights});
}

model::LossScale Engine::loss_scale(std::int64_t micro_targets, std::int64_t global_targets) const {
  const auto micro = static_cast<double>(micro_targets);
  const auto global = static_cast<double>(global_targets);
  switch (spec_.backward_scale) {
    case BackwardScale::kMicroBatchMean:
      return {.activation = static_cast<float>(1.0 / micro), .weight = static_cast<float>(micro / global)};
    case BackwardScale::kGlobalMean: return {.activation = static_cast<float>(1.0 / global), .weight = 1.0f};
    case BackwardScale::kSum: return {.activation = 1.0f, .weight = static_cast<float>(1.0 / global)};
  }
  return {};
}

// Host side of one micro-batch, in memory that the device copies from and to: a BatchLayout, then its nll.
Engine::HostSlot Engine::slot(std::int64_t index) const {
  const std::int64_t tokens = batch_.tokens.cols;
  std::byte* base = static_cast<std::byte*>(staging_) + index * slot_bytes();
  const BatchLayout at = BatchLayout::of(tokens);
  return {.batch = batch_views(base, tokens), .nll = reinterpret_cast<float*>(base + at.size_bytes)};
}

std::int64_t Engine::slot_bytes() const {
  return BatchLayout::of(batch_.tokens.cols).size_bytes + batch_.tokens.cols * std::int64_t{sizeof(float)};
}

void Engine::reserve_slots(std::int64_t count) {
  if (count <= num_slots_) return;
  if (staging_ != nullptr) device_.release_host(staging_);
  staging_ = device_.allocate_host(count * slot_bytes());
  num_slots_ = count;
}

void Engine::upload(const data::Batch& micro, std::int64_t index, const model::LossScale& scale) {
  assert(static_cast<std::int64_t>(micro.tokens.size()) == batch_.tokens.cols);
  assert(static_cast<std::int64_t>(micro.documents.size()) <= batch_.segments.rows);
  const model::BatchViews host = slot(index).batch;
  std::copy(micro.tokens.begin(), micro.tokens.end(), host.tokens.as<std::int32_t>());
  std::copy(micro.labels.begin(), micro.labels.end(), host.labels.as<std::int32_t>());
  std::copy(micro.positions.begin(), micro.positions.end(), host.positions.as<std::int32_t>());
  auto* segments = static_cast<ops::Segment*>(host.segments.data);
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch_.segments.rows); ++i) {
    segments[i] = {};
    if (i >= micro.documents.size()) continue;
    const auto begin = static_cast<std::int32_t>(micro.documents[i].begin);
    const auto length = static_cast<std::int32_t>(micro.documents[i].length);
    segments[i] = {.q_begin = begin, .q_len = length, .kv_begin = begin, .kv_len = length};
  }
  host.loss_scale.as<float>()[0] = scale.activation;
  host.loss_scale.as<float>()[1] = scale.weight;
  device_.enqueue_to_device(batch_.tokens.data, host.tokens.data, BatchLayout::of(batch_.tokens.cols).size_bytes);
  const bool rows_are_documents = static_cast<std::int64_t>(micro.documents.size()) == micro.rows &&
                                  std::all_of(micro.documents.begin(), micro.documents.end(),
                                              [&](const data::DocumentSpan& d) { return d.length == micro.seq_len; });
  batch_.uniform_document_len = rows_are_documents ? micro.seq_len : 0;
}

void Engine::clear(const TensorView& flat, const model::ElemRange& range) {
  const TensorView part = flat.col_slice(range.begin, range.size);
  device_.fill_zero(part.data, part.size_bytes());
}

void Engine::enqueue(const data::Batch& global) {
  assert(global.rows % spec_.micro_batch_rows == 0 && global.seq_len == spec_.seq_len);
  reserve_slots(global.rows / spec_.micro_batch_rows);
  bool first = true;
  for (std::int64_t begin = 0; begin < global.rows; begin += spec_.micro_batch_rows) {
    const std::int64_t index = begin / spec_.micro_batch_rows;
    data::split_batch(global, begin, spec_.micro_batch_rows, micro_);
    if (micro_.num_targets == 0) continue;  // no target, no gradient
    upload(micro_, index, loss_scale(micro_.num_targets, global.num_targets));
    graphs_->run({.first = first, .uniform_document_len = batch_.uniform_document_len}, [&] {
      if (first)
        for (const model::ElemRange& range : decoder_.cleared_gradients()) clear(buffers_.grads, range);
      decoder_.train_micro_batch(*context_, buffers_, batch_, spec_.recompute,
                                 first ? model::GradientSum::kStart : model::GradientSum::kContinue, nll_);
    });
    device_.enqueue_to_host(slot(index).nll, nll_.data, nll_.size_bytes());
    first = false;
  }
  if (first) return clear(buffers_.grads, {.size = buffers_.grads.cols});
  graphs_->run({.part = GraphKey::Part::kFinishGradients}, [&] { decoder_.finish_gradients(*context_, buffers_); });
}

StepResult Engine::finish(const data::Batch& global, std::int64_t num_sources) {
  StepResult result;
  result.targets = global.num_targets;
  result.source_nll.assign(static_cast<std::size_t>(num_sources), 0.0);
  result.source_targets.assign(static_cast<std::size_t>(num_sources), 0);
  if (global.num_targets == 0) return result;
  graphs_->run({.part = GraphKey::Part::kNorm}, [&] { optimizer_.enqueue_norm(*context_, buffers_.grads, state_); });
  result.grad_norm = optimizer_.read_norm(device_, state_);
  const std::int64_t tokens = batch_.tokens.cols;
  for (std::int64_t begin = 0; begin < global.rows * global.seq_len; begin += tokens) {
    const float* nll = slot(begin / tokens).nll;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto at = static_cast<std::size_t>(begin + i);
      if (global.labels[at] == data::kIgnoreLabel) continue;
      result.source_nll[global.source_of_token[at]] += nll[i];
      ++result.source_targets[global.source_of_token[at]];
    }
  }
  result.loss =
      std::accumulate(result.source_nll.begin(), result.source_nll.end(), 0.0) / static_cast<double>(global.num_targets);
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  return result;
}

void Engine::update(std::int64_t step, double lr, double norm) {
  optimizer_.upload_scalars(device_, state_, step, lr, norm);
  graphs_->run({.part = GraphKey::Part::kUpdate},
               [&] { optimizer_.enqueue_step(*context_, state_, buffers_.weights, buffers_.grads); });
}

void Engine::evaluate(const data::Batch& batch, std::span<float> nll) {
  assert(batch.rows <= spec_.micro_batch_rows && batch.seq_len == spec_.seq_len);
  reserve_slots(1);
  micro_ = batch;
  data::pad_batch(micro_, spec_.micro_batch_rows);
  upload(micro_, 0, {});
  decoder_.evaluate(*context_, buffers_, batch_, nll_);
  device_.copy_to_host(nll.data(), nll_.data, static_cast<std::int64_t>(nll.size_bytes()));
}

}  // namespace ida::train
