#include "eval/forward_model.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "checkpoint/hf_model.h"
#include "formats/bf16.h"
#include "model/upload.h"
#include "precision/recipe.h"

namespace ida::eval {
namespace {
using runtime::MemoryClass;
}

model::BatchViews allocate_batch(runtime::Arena& arena, std::int64_t rows, std::int64_t segments) {
  return {.tokens = arena.allocate(DType::kI32, 1, rows, MemoryClass::kBatch, "tokens"),
          .labels = arena.allocate(DType::kI32, 1, rows, MemoryClass::kBatch, "labels"),
          .positions = arena.allocate(DType::kI32, 1, rows, MemoryClass::kBatch, "positions"),
          .segments = arena.allocate(DType::kI32, segments, 4, MemoryClass::kBatch, "segments")};
}

model::BatchViews upload(runtime::Device& device, const model::BatchViews& views, const HostTokens& host) {
  const auto rows = static_cast<std::int64_t>(host.tokens.size());
  model::BatchViews used = views;
  for (TensorView* view : {&used.tokens, &used.labels, &used.positions}) *view = view->col_slice(0, rows);
  assert(static_cast<std::int64_t>(host.segments.size()) <= views.segments.rows);
  std::vector<ops::Segment> table = host.segments;
  table.resize(static_cast<std::size_t>(views.segments.rows));
  const auto copy = [&](const TensorView& view, const std::vector<std::int32_t>& values) {
    if (!values.empty()) device.copy_to_device(view.data, values.data(), view.size_bytes());
  };
  copy(used.tokens, host.tokens);
  copy(used.labels, host.labels);
  copy(used.positions, host.positions);
  device.copy_to_device(views.segments.data, table.data(), views.segments.size_bytes());
  return used;
}

std::vector<float> read_as_f32(runtime::Device& device, const TensorView& view) {
  assert(view.contiguous());
  std::vector<float> values(static_cast<std::size_t>(view.numel()));
  if (view.dtype == DType::kF32) {
    device.copy_to_host(values.data(), view.data, view.size_bytes());
    return values;
  }
  std::vector<bf16> raw(values.size());
  device.copy_to_host(raw.data(), view.data, view.size_bytes());
  std::transform(raw.begin(), raw.end(), values.begin(), [](bf16 x) { return to_f32(x); });
  return values;
}

std::vector<float> token_nll(const ForwardModel& model, const HostTokens& host) {
  runtime::Arena& arena = model.context.arena;
  runtime::Arena::Scope scope(arena);
  const auto rows = static_cast<std::int64_t>(host.tokens.size());
  model::BatchViews batch = allocate_batch(arena, rows, static_cast<std::int64_t>(host.segments.size()));
  const TensorView nll = arena.allocate(DType::kF32, 1, rows, MemoryClass::kBatch, "nll");
  if (!arena.dry()) batch = upload(model.device, batch, host);
  model.decoder.evaluate(model.context, model.buffers, batch, nll);
  return arena.dry() ? std::vector<float>{} : read_as_f32(model.device, nll);
}

std::vector<float> all_logits(const ForwardModel& model, const HostTokens& host) {
  runtime::Arena& arena = model.context.arena;
  runtime::Arena::Scope scope(arena);
  const model::ModelConfig& config = model.decoder.config();
  const auto rows = static_cast<std::int64_t>(host.tokens.size());
  model::BatchViews batch = allocate_batch(arena, rows, static_cast<std::int64_t>(host.segments.size()));
  const DType dtype = model.decoder.compute_dtype();
  const TensorView hidden = arena.allocate(dtype, rows, config.hidden_size, MemoryClass::kActivations, "hidden");
  const std::int64_t chunk_rows = std::min(rows, model::head_chunk_rows(config, model.context.device));
  const TensorView logits = arena.allocate(dtype, chunk_rows, config.vocab_size, MemoryClass::kActivations, "logits");
  if (!arena.dry()) batch = upload(model.device, batch, host);
  model.decoder.forward_hidden(model.context, model.buffers, batch, host.segments, nullptr, hidden);
  std::vector<float> all;
  for (std::int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const TensorView chunk = logits.row_slice(0, std::min(chunk_rows, rows - begin));
    model.decoder.logits(model.context, model.buffers, hidden.row_slice(begin, chunk.rows), chunk);
    if (arena.dry()) continue;
    const std::vector<float> values = read_as_f32(model.device, chunk);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

LoadedModel::LoadedModel(const std::string& dir, runtime::Device& device, const ops::Backend& backend,
                         const LoadOptions& options, const std::function<void(const ForwardModel&)>& measure)
    : device_(device), dir_(dir) {
  const checkpoint::HfModel source = checkpoint::open_model(dir);
  config_ = source.config();
  table_ = model::build_param_table(config_);
  checkpoint::check_hf_weights(source, table_);
  if (options.with_tokenizer) tokenizer_ = text::Tokenizer::load(dir);
  if (tokenizer_ && tokenizer_->vocab_size() > config_.vocab_size)
    fail_usage("{}: the tokenizer has {} tokens but the model's vocab_size is {}", dir, tokenizer_->vocab_size(),
               config_.vocab_size);
  max_positions_ = std::max<std::int64_t>(options.max_positions, 1);
  const DType dtype = options.dtype.value_or(config_.dtype);
  decoder_ = std::make_unique<model::Decoder>(config_, table_, dtype);
  sites_ = precision::build_site_plan(precision::recipe_by_name(dtype == DType::kF32 ? "fp32" : "bf16"),
                                      model::gemm_sites(config_, 1, 1), backend.gemm, device.info());

  runtime::Arena dry;
  context_ = std::make_unique<ops::Context>(device.info(), backend, dry);
  context_->site_plan = &sites_;
  allocate_weights(dry);
  measure(forward());

  memory_bytes_ = dry.high_water_bytes();
  const std::int64_t limit = device.info().memory_bytes;
  if (limit > 0 && memory_bytes_ > limit)
    fail_runtime("[memory] {} needs {:.1f} MiB but the device has {:.1f} MiB: use a smaller window or batch", dir,
                 static_cast<double>(memory_bytes_) / 1048576.0, static_cast<double>(limit) / 1048576.0);
  memory_ = device.allocate(memory_bytes_);
  arena_ = std::make_unique<runtime::Arena>(memory_, memory_bytes_);
  context_ = std::make_unique<ops::Context>(device.info(), backend, *arena_, device.queue());
  context_->site_plan = &sites_;
  allocate_weights(*arena_);

  std::vector<float> master(static_cast<std::size_t>(table_.total_elems));
  checkpoint::read_hf_weights(source, table_, master);
  model::upload_weights(device, buffers_.weights, master);
  model::upload_rope_tables(device, config_, buffers_);
}

LoadedModel::~LoadedModel() {
  if (memory_ != nullptr) device_.release(memory_, memory_bytes_);
}

void LoadedModel::allocate_weights(runtime::Arena& arena) {
  buffers_ = {};
  buffers_.weights = arena.allocate(decoder_->compute_dtype(), 1, table_.total_elems, MemoryClass::kWeights, "weights");
  buffers_.rope_cos = arena.allocate(DType::kF32, max_positions_, config_.head_dim / 2, MemoryClass::kWeights, "rope_cos");
  buffers_.rope_sin = arena.allocate(DType::kF32, max_positions_, config_.head_dim / 2, MemoryClass::kWeights, "rope_sin");
}

const text::Tokenizer& LoadedModel::tokenizer() const {
  assert(tokenizer_.has_value());
  return *tokenizer_;
}

}  // namespace ida::eval
