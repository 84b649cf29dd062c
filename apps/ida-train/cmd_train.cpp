// ida-train train: starts or resumes a run, then writes its report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common.h"
#include "config/load.h"
#include "train/trainer.h"

namespace ida::app {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  bool accept_changed_data = false;
  std::string out;
};

ExitCode run(const Options& options, const Program& program) {
  const config::RunConfig config = config::load_run_config(options.config, options.overrides);
  Machine machine = open_machine(backend_of(config), program.threads > 0 ? program.threads : config.device.threads);
  const train::TrainOutcome outcome =
      train::train(config, machine.device, machine.backend, program.argv,
                   options.accept_changed_data ? train::OnChangedData::kRestart : train::OnChangedData::kRefuse);
  if (outcome.already_done) fmt::print("nothing to do: all {} steps are done\n", outcome.step);
  show_run(outcome.run_dir, options.out);
  if (!outcome.stopped) return ExitCode::kDone;
  const std::string line =
      fmt::format("stopped by a signal after step {}, saved; the same command continues\n", outcome.step);
  std::fputs(line.c_str(), stderr);  // may lie on a full disk, which changes nothing about the outcome
  return ExitCode::kStopped;
}

}  // namespace

void add_train(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(root, "train", "start or resume a run", program, [options, &program] { return run(*options, program); });
  command->add_option("CONFIG", options->config, "run configuration, TOML")->required();
  add_repeated(*command, "--set", options->overrides, "a.b=value: overrides a setting of the file; may be repeated");
  command->add_flag("--accept-changed-data", options->accept_changed_data,
                    "resume although the training data changed, with the new data from its beginning");
  add_out(*command, options->out);
  command->footer([] { return "Settings:\n" + config::settings_help(); });
}

}  // namespace ida::app
