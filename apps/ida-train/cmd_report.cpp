// ida-train report, and the summary that `train` ends with.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "report/report.h"
#include "report/summary.h"

namespace ida::app {
namespace {

struct Options {
  std::string run;
  std::string out;
};

void print_optional(const char* label, const std::optional<double>& value, const char* unit) {
  if (value) fmt::print("{:<16} {:.4f} {}\n", label, *value, unit);
}

void print_summary(const report::RunSummary& s) {
  fmt::print("{:<16} {}\n{:<16} {}\n{:<16} {}\n{:<16} {}\n", "run", s.name, "steps", s.steps, "target tokens", s.tokens,
             "parameters", s.parameters);
  print_optional("first loss", s.first_loss, "nats/token");
  print_optional("last loss", s.final_loss, "nats/token");
  print_optional("validation loss", s.val_loss, "nats/token");
  print_optional("validation", s.val_bits_per_byte, "bits/byte");
  if (s.tokens_per_s) fmt::print("{:<16} {:.0f} tokens/s (median)\n", "throughput", *s.tokens_per_s);
  if (s.elapsed_s) fmt::print("{:<16} {:.1f} s\n", "time in steps", *s.elapsed_s);
  fmt::print("{:<16} {}, of them {} not on the planned engine\n", "matrix products", s.num_gemm_calls, s.num_fallbacks);
}

}  // namespace

void show_run(const std::string& run_dir, const std::string& out) {
  const std::string report_path = report::write_report(run_dir);
  const report::RunSummary summary = report::summarise_run(run_dir);
  print_summary(summary);
  fmt::print("{:<16} {}\n", "report", report_path);
  write_figures(out, nlohmann::json::parse(report::to_json(summary)));
}

void add_report(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "report", "write a run's report.html and print its figures", program, [options] {
    require_folder(options->run, "a run folder");
    show_run(options->run, options->out);
    return ExitCode::kDone;
  });
  command->add_option("RUN", options->run, "run folder")->required();
  add_out(*command, options->out);
}

}  // namespace ida::app
