#include "train/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/hf_model.h"
#include "eval/forward_model.h"
#include "train/engine.h"

namespace ida::train {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::TensorSpan;

const TensorSpan& find(const SafetensorsFile& file, const std::string& name) {
  for (const TensorSpan& tensor : file.tensors())
    if (tensor.name == name) return tensor;
  fail_corrupt("{}: tensor '{}' is missing", file.path(), name);
}

template <typename T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name, std::string_view dtype) {
  const TensorSpan& tensor = find(file, name);
  if (tensor.dtype_name() != dtype)
    fail_corrupt("{}: tensor '{}' is {}, expected {}", file.path(), name, tensor.dtype_name(), dtype);
  std::vector<T> out(tensor.bytes.size() / sizeof(T));
  std::memcpy(out.data(), tensor.bytes.data(), out.size() * sizeof(T));
  return out;
}

std::vector<std::int32_t> ids(const SafetensorsFile& file, const std::string& name, std::size_t size) {
  const auto wide = values<std::int64_t>(file, name, "I64");
  if (wide.size() != size) fail_corrupt("{}: tensor '{}' has {} values, expected {}", file.path(), name, wide.size(), size);
  return {wide.begin(), wide.end()};
}

// Runs of equal segment ids inside a row. An id that comes back after another would mean attention across a gap.
void add_documents(const std::vector<std::int32_t>& segment_ids, std::int64_t row, data::Batch& batch,
                   std::string_view path) {
  std::vector<std::int32_t> seen;
  for (std::int64_t t = 0; t < batch.seq_len;) {
    const std::int64_t begin = row * batch.seq_len + t;
    const std::int32_t id = segment_ids[static_cast<std::size_t>(begin)];
    if (std::find(seen.begin(), seen.end(), id) != seen.end())
      fail_corrupt("{}: segment {} of row {} is not contiguous", path, id, row);
    seen.push_back(id);
    std::int64_t length = 0;
    while (t < batch.seq_len && segment_ids[static_cast<std::size_t>(row * batch.seq_len + t)] == id) ++t, ++length;
    batch.documents.push_back({.begin = begin, .length = length});
  }
}

data::Batch read_batch(const SafetensorsFile& golden, const model::ModelConfig& config) {
  const std::vector<std::int64_t>& shape = find(golden, "input_ids").shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) fail_corrupt("{}: input_ids must be [B, T]", golden.path());
  data::Batch batch;
  batch.rows = shape[0];
  batch.seq_len = shape[1];
  const auto size = static_cast<std::size_t>(batch.rows * batch.seq_len);
  batch.tokens = ids(golden, "input_ids", size);
  batch.labels = ids(golden, "labels", size);
  batch.positions = ids(golden, "position_ids", size);
  batch.source_of_token.assign(size, 0);
  const auto segment_ids = values<std::int32_t>(golden, "segment_ids", "I32");
  if (segment_ids.size() != size) fail_corrupt("{}: segment_ids must have the shape of input_ids", golden.path());
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    add_documents(segment_ids, row, batch, golden.path());
    std::int64_t targets = 0;
    for (std::int64_t t = 0; t < batch.seq_len; ++t) {
      const auto at = static_cast<std::size_t>(row * batch.seq_len + t);
      const std::int32_t label = batch.labels[at];
      if (label != data::kIgnoreLabel && (label < 0 || label >= config.vocab_size))
        fail_corrupt("{}: label {} is outside the vocabulary of {}", golden.path(), label, config.vocab_size);
      if (batch.tokens[at] < 0 || batch.tokens[at] >= config.vocab_size || batch.positions[at] < 0)
        fail_corrupt("{}: token or position out of range in row {} at {}", golden.path(), row, t);
      targets += label != data::kIgnoreLabel ? 1 : 0;
    }
    batch.row_targets.push_back(targets);
    batch.row_target_bytes.push_back(0);
    batch.num_targets += targets;
  }
  return batch;
}

double relative_error(std::span<const float> got, std::span<const float> want) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

class GoldenRun {
 public:
  GoldenRun(const std::string& dir, runtime::Device& device, const ops::Backend& backend, DType dtype, double rtol)
      : dir_(dir),
        device_(device),
        backend_(backend),
        dtype_(dtype),
        rtol_(rtol),
        golden_(dir + "/golden.safetensors"),
        source_(checkpoint::open_model(dir)),
        batch_(read_batch(golden_, source_.config())) {}

  GoldenReport run() {
    check_logits();
    check_training(ops::OptimizerKind::kAdamW);
    check_training(ops::OptimizerKind::kLion);
    return std::move(report_);
  }

 private:
  void compare(const std::string& name, std::span<const float> got, std::span<const float> want, double tolerance) {
    if (got.size() != want.size())
      fail_corrupt("{}: '{}' has {} values, expected {}", golden_.path(), name, want.size(), got.size());
    report_.checks.push_back({.name = name, .relative_error = relative_error(got, want), .tolerance = tolerance});
  }

  void check_logits() {
    eval::HostTokens host{.tokens = batch_.tokens, .labels = batch_.labels, .positions = batch_.positions, .segments = {}};
    for (const data::DocumentSpan& d : batch_.documents) {
      const auto begin = static_cast<std::int32_t>(d.begin);
      const auto length = static_cast<std::int32_t>(d.length);
      host.segments.push_back({.q_begin = begin, .q_len = length, .kv_begin = begin, .kv_len = length});
    }
    const eval::LoadOptions options{.dtype = dtype_, .with_tokenizer = false, .max_positions = num_positions()};
    eval::LoadedModel model(dir_, device_, backend_, options,
                            [&](const eval::ForwardModel& m) { eval::all_logits(m, host); });
    compare("logits", eval::all_logits(model.forward(), host), values<float>(golden_, "logits", "F32"), rtol_);
    report_.counters.add(model.counters());
  }

  void check_training(ops::OptimizerKind kind) {
    const bool adamw = kind == ops::OptimizerKind::kAdamW;
    EngineSpec spec{.model = source_.config(),
                    .recipe = precision::recipe_by_name(dtype_ == DType::kF32 ? "fp32" : "bf16"),
                    .optimizer = {.kind = kind,
                                  .beta1 = 0.9,
                                  .beta2 = adamw ? 0.95 : 0.99,
                                  .eps = 1e-8,
                                  .weight_decay = 0.1,
                                  .clip_norm = 0.0,
                                  .decay = optim::DecaySet::kAll},
                    .micro_batch_rows = batch_.rows,
                    .seq_len = batch_.seq_len,
                    .max_positions = num_positions()};
    Engine engine(spec, device_, backend_);
    std::vector<float> masters(static_cast<std::size_t>(engine.table().total_elems));
    checkpoint::read_hf_weights(source_, engine.table(), masters);
    engine.set_masters(masters);
    std::vector<float> losses;
    for (std::int64_t step = 1; step <= 8; ++step) {
      const StepResult result = engine.accumulate(batch_);
      losses.push_back(static_cast<float>(result.loss));
      if (step == 1 && adamw) check_first_step(engine, losses.front());
      engine.update(step, 1e-3, result.grad_norm);
    }
    const auto want = values<float>(golden_, adamw ? "losses_adamw" : "losses_lion", "F32");
    if (want.size() != losses.size()) fail_corrupt("{}: expected 8 optimizer losses, got {}", golden_.path(), want.size());
    const std::span<const float> got(losses);
    const std::span<const float> all(want);
    report_.counters.add(engine.context().calls.gemms);
    if (adamw) {
      compare("losses_adamw", got, all, rtol_);
      return;
    }
    constexpr double kLionLateBar = 5e-3;
    compare("losses_lion[0..3]", got.first(4), all.first(4), rtol_);
    compare("losses_lion[4..7]", got.last(4), all.last(4), std::max(kLionLateBar, rtol_));
  }

  void check_first_step(Engine& engine, float loss) {
    const std::vector<float> got = {loss};
    compare("loss", got, values<float>(golden_, "loss", "F32"), rtol_);
    compare("total_loss", got, values<float>(golden_, "total_loss", "F32"), rtol_);
    std::vector<float> grads(static_cast<std::size_t>(engine.table().total_elems));
    engine.read_buffer(engine.buffers().grads, grads.data());
    for (const model::ParamSpec& p : engine.table().params) {
      const std::span<const float> grad(grads.data() + p.offset_elems, static_cast<std::size_t>(p.numel()));
      compare("grad." + p.name, grad, values<float>(golden_, "grad." + p.name, "F32"), rtol_);
    }
    for (const TensorSpan& tensor : golden_.tensors()) {
      if (tensor.name.starts_with("grad.") && engine.table().find(tensor.name.substr(5)) < 0)
        fail_corrupt("{}: gradient '{}' belongs to no parameter of the model", golden_.path(), tensor.name);
    }
  }

  std::int64_t num_positions() const { return 1 + *std::max_element(batch_.positions.begin(), batch_.positions.end()); }

  std::string dir_;
  runtime::Device& device_;
  const ops::Backend& backend_;
  DType dtype_;
  double rtol_;
  SafetensorsFile golden_;
  checkpoint::HfModel source_;
  data::Batch batch_;
  GoldenReport report_;
};

}  // namespace

bool GoldenReport::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const GoldenCheck& check) { return check.passed(); });
}

GoldenReport verify_golden(const std::string& dir, runtime::Device& device, const ops::Backend& backend, DType dtype,
                           double rtol) {
  return GoldenRun(dir, device, backend, dtype, rtol).run();
}

}  // namespace ida::train
