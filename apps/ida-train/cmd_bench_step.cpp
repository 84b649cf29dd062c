// ida-train bench step.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/units.h"
#include "common.h"
#include "config/load.h"
#include "evidence/build_id.h"
#include "train/bench_step.h"

namespace ida::app {
namespace {

struct StepOptions {
  std::string config;
  std::vector<std::string> overrides;
  train::StepBenchOptions bench;
  std::string out;
};

constexpr std::size_t kShownKernels = 24;

// The kernels that took most of a step, and what they sum to.
nlohmann::json show_kernels(const train::StepBenchResult& result) {
  nlohmann::json figures = nlohmann::json::object();
  std::vector<std::pair<std::string, runtime::KernelTotal>> sorted(result.kernels.begin(), result.kernels.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.milliseconds > b.second.milliseconds; });
  double sum_ms = 0.0;
  for (const auto& [name, total] : sorted) {
    sum_ms += total.milliseconds;
    figures[name] = {{"launches", total.launches}, {"ms", total.milliseconds}};
  }
  if (sorted.empty()) {
    fmt::print("no kernels recorded: {}\n", result.no_kernels);
    return figures;
  }
  fmt::print("kernels of one step, {:.2f} ms of {:.2f} ms:\n", sum_ms, result.median_step_ms);
  for (std::size_t i = 0; i < std::min(sorted.size(), kShownKernels); ++i)
    fmt::print("{:9.3f} ms {:6} x {:.100}\n", sorted[i].second.milliseconds, sorted[i].second.launches, sorted[i].first);
  return figures;
}

ExitCode run_step(const StepOptions& options, const Program& program) {
  const std::string text = options.config.empty() ? "" : read_file(options.config, config::kMaxConfigBytes);
  const config::RunConfig config =
      config::read_run_config(text, options.config.empty() ? "bench" : options.config, options.overrides);
  config::check_implemented(config);
  Machine machine = open_machine(backend_of(config), program.threads > 0 ? program.threads : config.device.threads);
  const train::StepBenchResult r = train::bench_step(config, machine.device, machine.backend, options.bench);
  fmt::print("{}: {:.1f}M parameters, {} x {} tokens, {} micro-batches\n", r.device,
             static_cast<double>(r.parameters) / 1e6, r.micro_batch_sequences, r.seq_len, r.micro_batches);
  fmt::print("step {:.2f} ms (median of {}), {:.0f} tokens/s, {:.1f} TFLOP/s in products\n", r.median_step_ms,
             r.step_ms.size(), r.tokens_per_s, r.gemm_tflop_per_s);
  fmt::print("start, ms: plan and memory {:.0f}, timing products {:.0f}, weights {:.0f}, first step {:.0f}\n",
             r.start_ms.at("plan_and_memory"), r.start_ms.at("timing_products"), r.start_ms.at("weights"),
             r.start_ms.at("first_step"));
  fmt::print("arena {:.2f} GiB, planned {:.2f} GiB, device {:.2f} GiB, loss {:.4f} -> {:.4f}\n", gib(r.arena_bytes),
             gib(r.planned_bytes), gib(r.device_bytes), r.losses.front(), r.losses.back());
  for (const auto& [op, calls] : r.op_calls)
    if (op.starts_with("attention")) fmt::print("{} x {}\n", calls, op);
  const nlohmann::json kernels = show_kernels(r);
  nlohmann::json figures = engines_json(r.calls);
  figures.update({{"command", program.argv},
                  {"build", evidence::build_id().commit},
                  {"device", r.device},
                  {"recipe", config.precision.recipe},
                  {"deterministic", config.device.deterministic},
                  {"parameters", r.parameters},
                  {"seq_len", r.seq_len},
                  {"micro_batch_sequences", r.micro_batch_sequences},
                  {"micro_batches", r.micro_batches},
                  {"documents_per_row", options.bench.documents_per_row},
                  {"step_ms", r.step_ms},
                  {"median_step_ms", r.median_step_ms},
                  {"start_ms", r.start_ms},
                  {"tokens_per_s", r.tokens_per_s},
                  {"gemm_tflop_per_s", r.gemm_tflop_per_s},
                  {"arena_bytes", r.arena_bytes},
                  {"planned_bytes", r.planned_bytes},
                  {"device_bytes", r.device_bytes},
                  {"losses", r.losses},
                  {"ops", r.op_calls},
                  {"kernels", kernels},
                  {"replays", r.replays}});
  if (!r.library_choices.empty()) figures["library_choices"] = nlohmann::json::parse(r.library_choices);
  write_figures(options.out, figures);
  return ExitCode::kDone;
}

}  // namespace

void add_bench_step(CLI::App& group, Program& program) {
  auto options = std::make_shared<StepOptions>();
  CLI::App* command = add_command(group, "step", "training steps of a configuration on made-up rows", program,
                                  [options, &program] { return run_step(*options, program); });
  command->add_option("CONFIG", options->config, "run configuration, TOML; data and name are not needed");
  add_repeated(*command, "--set", options->overrides, "a.b=value: overrides a setting of the file; may be repeated");
  command->add_option("--steps", options->bench.steps, "steps to time")->check(CLI::PositiveNumber);
  command->add_option("--warmup", options->bench.warmup_steps, "steps before them")->check(CLI::PositiveNumber);
  command->add_option("--documents", options->bench.documents_per_row, "documents of equal length a row")
      ->check(CLI::PositiveNumber);
  add_out(*command, options->out);
}

}  // namespace ida::app
