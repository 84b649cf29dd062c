// ida-train verify golden|checkpoint|export.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common.h"
#include "train/golden.h"

namespace ida::app {
namespace {

struct GoldenOptions {
  std::string dir;
  std::string backend = "cpu";
  std::string dtype = "f32";
  double rtol = 1e-5;
  std::string out;
};

nlohmann::json golden_json(const GoldenOptions& options, const train::GoldenReport& report) {
  nlohmann::json checks = nlohmann::json::array();
  for (const train::GoldenCheck& check : report.checks) {
    nlohmann::json row = {{"name", check.name}, {"tolerance", check.tolerance}, {"passed", check.passed()}};
    if (std::isfinite(check.relative_error)) row["relative_error"] = check.relative_error;
    checks.push_back(std::move(row));
  }
  nlohmann::json figures = engines_json(report.counters);
  figures.update({{"case", options.dir}, {"backend", options.backend}, {"dtype", options.dtype}, {"rtol", options.rtol},
                  {"passed", report.passed()}, {"checks", std::move(checks)}});
  return figures;
}

ExitCode run_golden(const GoldenOptions& options, const Program& program) {
  require_folder(options.dir, "the folder of a golden case");
  require_file(options.dir + "/golden.safetensors", "a golden case");
  Machine machine = open_machine(options.backend, program.threads);
  const train::GoldenReport report =
      train::verify_golden(options.dir, machine.device, machine.backend, *dtype_of(options.dtype), options.rtol);
  std::size_t num_failed = 0;
  const train::GoldenCheck* worst = nullptr;
  for (const train::GoldenCheck& check : report.checks) {
    fmt::print("{:<6} {:<60} error {:.3e}  bar {:.1e}\n", check.passed() ? "ok" : "FAILED", check.name, check.relative_error,
               check.tolerance);
    num_failed += check.passed() ? 0 : 1;
    const auto excess = [](const train::GoldenCheck& c) { return c.relative_error / c.tolerance; };
    if (worst == nullptr || !(excess(check) <= excess(*worst))) worst = &check;
  }
  fmt::print("{}: {} of {} checks within their bar, {} on {}; nearest to its bar: {}\n", options.dir,
             report.checks.size() - num_failed, report.checks.size(), options.dtype, options.backend, worst->name);
  write_figures(options.out, golden_json(options, report));
  return num_failed == 0 ? ExitCode::kDone : ExitCode::kRuntime;
}

void add_golden(CLI::App& group, Program& program) {
  auto options = std::make_shared<GoldenOptions>();
  CLI::App* command = add_command(group, "golden", "compare logits, loss, gradients and optimizer losses with a reference case",
                                  program, [options, &program] { return run_golden(*options, program); });
  command->add_option("DIR", options->dir, "folder with config.json, model.safetensors, golden.safetensors")->required();
  command->add_option("--backend", options->backend, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--dtype", options->dtype, "compute type, f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--rtol", options->rtol, "bar of the relative errors; late Lion losses keep 5e-3")->check(CLI::PositiveNumber);
  add_out(*command, options->out);
}

}  // namespace

void add_verify(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "verify", "check a model, a checkpoint or an export");
  add_golden(*group, program);
}

}  // namespace ida::app
