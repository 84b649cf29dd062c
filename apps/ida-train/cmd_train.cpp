// ida-train train: starts or resumes a run, then writes its report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "config/load.h"
#include "report/report.h"
#include "report/summary.h"
#include "train/trainer.h"

namespace ida::app {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
};

void print_optional(const char* label, const std::optional<double>& value, const char* unit) {
  if (value) fmt::print("{:<16} {:.4f} {}\n", label, *value, unit);
}

void print_summary(const report::RunSummary& s) {
  fmt::print("{:<16} {}\n{:<16} {}\n{:<16} {}\n{:<16} {}\n", "run", s.name, "steps", s.steps, "target tokens", s.tokens, "parameters",
             s.parameters);
  print_optional("first loss", s.first_loss, "nats/token");
  print_optional("last loss", s.final_loss, "nats/token");
  print_optional("validation loss", s.val_loss, "nats/token");
  print_optional("validation", s.val_bits_per_byte, "bits/byte");
  if (s.tokens_per_s) fmt::print("{:<16} {:.0f} tokens/s (median)\n", "throughput", *s.tokens_per_s);
  if (s.elapsed_s) fmt::print("{:<16} {:.1f} s\n", "time in steps", *s.elapsed_s);
  fmt::print("{:<16} {}, of them {} not on the planned engine\n", "matrix products", s.num_gemm_calls, s.num_fallbacks);
}

ExitCode run(const Options& options, const Program& program) {
  const config::RunConfig config = config::load_run_config(options.config, options.overrides);
  Machine machine = open_machine("auto", program.threads > 0 ? program.threads : config.device.threads);
  const train::TrainOutcome outcome = train::train(config, machine.device, machine.backend, program.argv);
  const std::string report_path = report::write_report(outcome.run_dir);
  const report::RunSummary summary = report::summarise_run(outcome.run_dir);
  if (outcome.already_done) fmt::print("nothing to do: all {} steps are done\n", outcome.step);
  print_summary(summary);
  fmt::print("{:<16} {}\n", "report", report_path);
  write_figures(options.out, nlohmann::json::parse(report::to_json(summary)));
  if (!outcome.stopped) return ExitCode::kDone;
  fmt::print(stderr, "stopped by a signal after step {}, saved; the same command continues\n", outcome.step);
  return ExitCode::kStopped;
}

}  // namespace

void add_train(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "train", "start or resume a run", program,
                                  [options, &program] { return run(*options, program); });
  command->add_option("CONFIG", options->config, "run configuration, TOML")->required();
  add_repeated(*command, "--set", options->overrides, "a.b=value: overrides a setting of the file; may be repeated");
  add_out(*command, options->out);
  command->footer([] { return "Settings:\n" + config::settings_help(); });
}

}  // namespace ida::app
