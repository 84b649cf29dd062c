// ida-train probe cliff.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "eval/cliff.h"

namespace ida::app {
namespace {

struct Options {
  std::string format = "nvfp4";
  bool prescale = false;
  bool two_level = false;
  bool outliers = false;
  std::uint64_t seed = eval::CliffOptions{}.seed;
  std::string backend = "auto";
  std::string out;
};

ExitCode run_cliff(const Options& options, const Program& program) {
  eval::CliffOptions cliff{.format = *formats::format_of_name(options.format),
                           .prescale = options.prescale,
                           .outliers = options.outliers,
                           .seed = options.seed};
  if (options.two_level && cliff.format.grid != formats::ScaleGrid::kNv16)
    fail_usage("--two-level: {} has no tensor scale; it goes with --format nvfp4", options.format);
  cliff.format.two_level = options.two_level;
  Machine machine = open_machine(options.backend, program.threads);
  const std::vector<eval::CliffRow> rows = eval::probe_cliff(cliff, machine.device, machine.backend);
  fmt::print("{:>10} {:>15} {:>14}{}\n", "magnitude", "relative_error", "zero_fraction",
             options.outliers ? "    of inliers: error     zeros" : "");
  nlohmann::json figures = nlohmann::json::array();
  for (const eval::CliffRow& row : rows) {
    fmt::print("{:>10.0e} {:>15.4f} {:>14.4f}", row.magnitude, row.relative_error, row.zero_fraction);
    nlohmann::json one = {
        {"magnitude", row.magnitude}, {"relative_error", row.relative_error}, {"zero_fraction", row.zero_fraction}};
    if (options.prescale) one["prescale_exponent"] = row.prescale_exponent;
    if (options.outliers) {
      fmt::print("{:>21.4f} {:>9.4f}", row.inlier_relative_error, row.inlier_zero_fraction);
      one["inlier_relative_error"] = row.inlier_relative_error;
      one["inlier_zero_fraction"] = row.inlier_zero_fraction;
    }
    fmt::print("\n");
    figures.push_back(std::move(one));
  }
  write_figures(options.out, {{"format", options.format},
                              {"prescale", options.prescale},
                              {"two_level", options.two_level},
                              {"outliers", options.outliers},
                              {"seed", cliff.seed},
                              {"device", machine.device.info().name},
                              {"rows", figures}});
  return ExitCode::kDone;
}

}  // namespace

void add_probe(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "probe", "what a number format and a device do to chosen values");
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(*group, "cliff", "error of quantising normal values of ever smaller magnitude", program,
                                  [options, &program] { return run_cliff(*options, program); });
  command->add_option("--format", options->format, "nvfp4, mxfp4, mxfp8 or mxfp8_e5m2")
      ->check(CLI::IsMember({"nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2"}));
  command->add_flag("--prescale", options->prescale, "multiply by 2^round(log2(4 / amax)) before, undo it after");
  command->add_flag("--two-level", options->two_level, "nvfp4 with its f32 scale of the tensor; without it that is 1");
  command->add_flag("--outliers", options->outliers, "one value in 100,000 is multiplied by 1,000");
  command->add_option("--seed", options->seed, "of the values");
  command->add_option("--backend", options->backend, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  add_out(*command, options->out);
}

}  // namespace ida::app
