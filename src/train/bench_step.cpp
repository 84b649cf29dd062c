#include "train/bench_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/rng.h"
#include "train/initial_weights.h"
#include "train/setup.h"

namespace ida::train {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// Uniform tokens in documents of equal length; the last token of a document predicts nothing.
data::Batch made_up_batch(std::int64_t rows, std::int64_t seq_len, std::int64_t vocab_size, std::int64_t documents) {
  data::Batch batch;
  data::reset_batch(batch, rows, seq_len);
  const std::int64_t length = seq_len / documents;
  const std::int64_t used = length * documents;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t targets = 0;
    for (std::int64_t t = 0; t < used; ++t) {
      const auto at = static_cast<std::size_t>(row * seq_len + t);
      const auto token = [&](std::int64_t i) {
        return static_cast<std::int32_t>(
            bounded_at(1, 0, static_cast<std::uint64_t>(row * seq_len + i), static_cast<std::uint64_t>(vocab_size)));
      };
      batch.tokens[at] = token(t);
      batch.positions[at] = static_cast<std::int32_t>(t % length);
      batch.source_of_token[at] = 0;
      if (t % length == length - 1) continue;
      batch.labels[at] = token(t + 1);
      ++targets;
    }
    for (std::int64_t d = 0; d < documents; ++d)
      batch.documents.push_back({.begin = row * seq_len + d * length, .length = length});
    batch.row_targets[static_cast<std::size_t>(row)] = targets;
    batch.num_targets += targets;
  }
  return batch;
}

}  // namespace

StepBenchResult bench_step(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                           const StepBenchOptions& options) {
  const model::ModelConfig model = resolve_model(config);
  EngineSpec spec = engine_spec(config, model);
  spec.micro_batch_rows = choose_micro_batch_rows(config, spec, device.info(), backend);
  if (options.documents_per_row < 1 || options.documents_per_row > spec.seq_len)
    fail_usage("[bench] {} documents do not fit in a row of {} tokens", options.documents_per_row, spec.seq_len);
  auto before = Clock::now();
  Engine engine(spec, device, backend, memory_limit(config, device.info()));
  const auto built = Clock::now();
  engine.set_masters(initial_weights(engine.table(), config.run.seed));
  device.synchronize();
  const auto filled = Clock::now();
  const std::int64_t rows = global_batch_rows(config);
  const data::Batch batch = made_up_batch(rows, spec.seq_len, model.vocab_size, options.documents_per_row);

  StepBenchResult result{.device = device.info().name,
                         .parameters = engine.table().num_parameters,
                         .seq_len = spec.seq_len,
                         .micro_batch_sequences = spec.micro_batch_rows,
                         .micro_batches = rows / spec.micro_batch_rows,
                         .arena_bytes = engine.plan().memory.total_bytes,
                         .planned_bytes = engine.plan().memory.device_bytes()};
  result.start_ms = {{"plan_and_memory", ms_between(before, built) - engine.preparation_ms()},
                     {"timing_products", engine.preparation_ms()},
                     {"weights", ms_between(built, filled)}};
  const optim::Schedule schedule = schedule_of(config);
  before = Clock::now();
  for (std::int64_t step = 1; step <= options.warmup_steps + options.steps; ++step) {
    const StepResult done = engine.accumulate(batch);
    engine.update(step, optim::learning_rate(schedule, std::min(step, schedule.total_steps)), done.grad_norm);
    if (step == 1 || step == options.warmup_steps) device.synchronize();
    const auto now = Clock::now();
    if (step == 1) result.start_ms["first_step"] = ms_between(before, now);
    if (step > options.warmup_steps) result.step_ms.push_back(ms_between(before, now));
    result.losses.push_back(done.loss);
    before = now;
  }
  device.synchronize();
  if (device.start_kernel_window(result.no_kernels)) {
    const StepResult done = engine.accumulate(batch);
    engine.update(options.warmup_steps + options.steps + 1, 0.0, done.grad_norm);
    result.kernels = device.stop_kernel_window();
  }
  result.device_bytes = device.used_bytes();
  result.replays = engine.graphs().replays();
  result.library_choices = device.library_choices();
  result.calls = engine.context().calls.gemms;
  for (const auto& [key, calls] : engine.context().calls.ops)
    result.op_calls[fmt::format("{}/{}", key.first, key.second)] = calls;
  std::vector<double> sorted = result.step_ms;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return result;
  result.median_step_ms = sorted[sorted.size() / 2];
  result.tokens_per_s = static_cast<double>(rows * spec.seq_len) / (result.median_step_ms / 1e3);
  result.gemm_tflop_per_s = engine.plan().micro_batch_gemm_flops * static_cast<double>(result.micro_batches) /
                            (result.median_step_ms / 1e3) / 1e12;
  return result;
}

}  // namespace ida::train
