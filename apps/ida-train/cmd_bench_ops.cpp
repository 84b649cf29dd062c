// ida-train bench pack, gemm and attention.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "common.h"
#include "config/load.h"
#include "evidence/build_id.h"
#include "train/bench_ops.h"

namespace ida::app {
namespace {

struct OpsOptions {
  std::string config;  // of gemm
  std::vector<std::string> overrides;
  std::string backend = "auto";
  std::string dtype = "bf16";
  train::PackBenchOptions pack;
  train::AttentionBenchOptions attention;
  bool with_pack = false;
  std::vector<std::int64_t> shapes;
  int repeats = 5;
  std::string out;
};

// Prints the table and writes the figures.
ExitCode report(const OpsOptions& options, const Program& program, const train::OpBenchResult& result) {
  fmt::print("{}; {}: {:.3f} {}\n", result.device, result.ceiling_of, result.ceiling, result.unit);
  fmt::print("{:>10} {:>12} {:>7}  {:<34} {:<30} {}\n", "ms", result.unit, "ratio", "op", "implementation", "problem");
  nlohmann::json rows = nlohmann::json::array();
  for (const train::OpBenchRow& r : result.rows) {
    fmt::print("{:10.4f} {:12.3f} {:7.3f}  {:<34} {:<30} {}\n", r.ms, r.rate, r.ratio, r.op, r.impl, r.problem);
    rows.push_back({{"op", r.op},
                    {"problem", r.problem},
                    {"implementation", r.impl},
                    {"ms", r.ms},
                    {result.unit == "GB/s" ? "bytes" : "flop", r.work},
                    {"rate", r.rate},
                    {"ratio", r.ratio}});
  }
  nlohmann::json refused = nlohmann::json::array();
  std::map<std::string, int> lines;
  for (const train::OpBenchRefusal& r : result.refused) {
    ++lines[fmt::format("{}: {}", r.impl, r.reason)];
    refused.push_back({{"op", r.op}, {"problem", r.problem}, {"implementation", r.impl}, {"reason", r.reason}});
  }
  for (const auto& [line, count] : lines) fmt::print("not timed, {} times: {}\n", count, line);
  write_figures(options.out, {{"command", program.argv},
                              {"build", evidence::build_id().commit},
                              {"device", result.device},
                              {"unit", result.unit},
                              {"ceiling_of", result.ceiling_of},
                              {"ceiling", result.ceiling},
                              {"rows", rows},
                              {"not_timed", refused}});
  return ExitCode::kDone;
}

ExitCode run_pack(OpsOptions& options, const Program& program) {
  options.pack.dtype = *dtype_of(options.dtype);
  options.pack.repeats = options.repeats;
  Machine machine = open_machine(options.backend, program.threads);
  return report(options, program, train::bench_pack(machine.device, machine.backend, options.pack));
}

ExitCode run_attention(OpsOptions& options, const Program& program) {
  options.attention.dtype = *dtype_of(options.dtype);
  options.attention.repeats = options.repeats;
  Machine machine = open_machine(options.backend, program.threads);
  return report(options, program, train::bench_attention(machine.device, machine.backend, options.attention));
}

double sum(const std::array<double, 3>& ms) { return ms[0] + ms[1] + ms[2]; }

ExitCode run_gemm_pack(const OpsOptions& options, const Program& program) {
  Machine machine = open_machine(options.backend, program.threads);
  train::GemmPackOptions pack{.repeats = options.repeats};
  if (!options.shapes.empty()) {
    if (options.shapes.size() % 3 != 0)
      fail_usage("--shapes: expected M,N,K for each, got {} numbers", options.shapes.size());
    pack.shapes.clear();
    for (std::size_t i = 0; i < options.shapes.size(); i += 3)
      pack.shapes.push_back({options.shapes[i], options.shapes[i + 1], options.shapes[i + 2]});
  }
  const train::GemmPackResult result = train::bench_gemm_pack(machine.device, machine.backend, pack);
  fmt::print("{}\n{:<36} {:<24} {:>9} {:>9} {:>9} {:>9} {:>7}  {}\n", result.device, "recipe", "m, n, k", "products",
             "packs", "by pass", "step", "x bf16", "engine");
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::string, double> totals;
  std::vector<std::string> order;
  std::map<std::string, double> bf16_totals;
  for (const train::GemmPackRow& r : result.rows) {
    const std::string shape = fmt::format("{}, {}, {}", r.shape.m, r.shape.n, r.shape.k);
    nlohmann::json row = {{"recipe", r.recipe}, {"m", r.shape.m}, {"n", r.shape.n}, {"k", r.shape.k}};
    if (!r.refusal.empty()) {
      fmt::print("{:<36} {:<24} {}\n", r.recipe, shape, r.refusal);
      row["refusal"] = r.refusal;
      rows.push_back(std::move(row));
      continue;
    }
    const auto bf16 = std::find_if(result.rows.begin(), result.rows.end(), [&](const train::GemmPackRow& other) {
      return other.recipe == "bf16" && other.shape.m == r.shape.m && other.shape.n == r.shape.n &&
             other.shape.k == r.shape.k;
    });
    if (totals.count(r.recipe) == 0) order.push_back(r.recipe);
    totals[r.recipe] += r.step_ms;
    bf16_totals[r.recipe] += bf16->step_ms;  // over the shapes that the recipe ran
    const double ratio = bf16->step_ms / r.step_ms;
    fmt::print("{:<36} {:<24} {:9.4f} {:9.4f} {:9.4f} {:9.4f} {:7.3f}  {}\n", r.recipe, shape, sum(r.product_ms),
               sum(r.pack_ms), sum(r.path_ms), r.step_ms, ratio, r.engine);
    row.update({{"engine", r.engine},
                {"product_ms", r.product_ms},
                {"pack_ms", r.pack_ms},
                {"path_ms", r.path_ms},
                {"step_ms", r.step_ms},
                {"step_ratio_to_bf16", ratio}});
    if (!r.unfused_ms.empty()) {
      double unfused = sum(r.product_ms);
      std::string parts;
      for (const auto& [step, ms] : r.unfused_ms) {
        unfused += ms;
        parts += fmt::format("{}{} {:.3f}", parts.empty() ? "" : ", ", step, ms);
      }
      fmt::print("{:<36} {:<24} {:>39.4f} {:7.3f}  {}\n", r.recipe + ", unfused", shape, unfused, bf16->step_ms / unfused,
                 parts);
      row.update(
          {{"unfused_ms", r.unfused_ms}, {"unfused_step_ms", unfused}, {"unfused_ratio_to_bf16", bf16->step_ms / unfused}});
    }
    rows.push_back(std::move(row));
  }
  nlohmann::json sums = nlohmann::json::object();
  for (const std::string& recipe : order) {
    fmt::print("{:<36} {:<24} {:>39.4f} {:7.3f}\n", recipe, "all shapes", totals[recipe],
               bf16_totals[recipe] / totals[recipe]);
    sums[recipe] = {{"step_ms", totals[recipe]}, {"ratio_to_bf16", bf16_totals[recipe] / totals[recipe]}};
  }
  write_figures(options.out, {{"command", program.argv},
                              {"build", evidence::build_id().commit},
                              {"device", result.device},
                              {"passes", {"fprop", "dgrad", "wgrad"}},
                              {"rows", rows},
                              {"all_shapes", sums}});
  return ExitCode::kDone;
}

ExitCode run_gemm(OpsOptions& options, const Program& program) {
  if (options.with_pack) return run_gemm_pack(options, program);
  const std::string text = options.config.empty() ? "" : read_file(options.config, config::kMaxConfigBytes);
  const config::RunConfig config =
      config::read_run_config(text, options.config.empty() ? "bench" : options.config, options.overrides);
  config::check_implemented(config);
  Machine machine = open_machine(backend_of(config), program.threads > 0 ? program.threads : config.device.threads);
  return report(options, program, train::bench_gemm(config, machine.device, machine.backend, options.repeats));
}

void add_common(CLI::App& command, OpsOptions& options) {
  command.add_option("--repeats", options.repeats, "timings of each row; the median counts")->check(CLI::PositiveNumber);
  add_out(command, options.out);
}
void add_machine(CLI::App& command, OpsOptions& options) {
  command.add_option("--backend", options.backend, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--dtype", options.dtype, "type of activations and weights")->check(CLI::IsMember({"f32", "bf16"}));
}
void add_sizes(CLI::App& command, const std::string& name, std::vector<std::int64_t>& values, const std::string& help) {
  command.add_option(name, values, help)->check(CLI::PositiveNumber)->delimiter(',');
}

}  // namespace

void add_bench_ops(CLI::App& group, Program& program) {
  auto options = std::make_shared<OpsOptions>();
  CLI::App* pack = add_command(group, "pack", "memory-bound ops against a copy", program,
                               [options, &program] { return run_pack(*options, program); });
  pack->add_option("--rows", options->pack.rows, "tokens of a call")->check(CLI::PositiveNumber);
  add_sizes(*pack, "--hidden", options->pack.hidden_sizes, "hidden sizes");
  add_sizes(*pack, "--vocab", options->pack.vocab_sizes, "vocabularies of the cross-entropy; the last is the embedding's");
  pack->add_option("--op", options->pack.only, "times only ops whose name begins so: quantize, rms_norm");
  add_machine(*pack, *options);
  add_common(*pack, *options);

  CLI::App* gemm = add_command(group, "gemm", "matrix products of a configuration against a square one", program,
                               [options, &program] { return run_gemm(*options, program); });
  gemm->add_option("CONFIG", options->config, "run configuration, TOML; data and name are not needed");
  add_repeated(*gemm, "--set", options->overrides, "a.b=value: overrides a setting of the file; may be repeated");
  gemm->add_flag("--with-pack", options->with_pack,
                 "instead: low-precision products of five shapes with all that has to be done for them, beside bf16");
  gemm->add_option("--shapes", options->shapes, "with --with-pack: M,N,K of each")
      ->check(CLI::PositiveNumber)
      ->delimiter(',');
  gemm->add_option("--backend", options->backend, "with --with-pack: auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  add_common(*gemm, *options);

  CLI::App* attention = add_command(group, "attention", "attention at the presets' heads against a square product", program,
                                    [options, &program] { return run_attention(*options, program); });
  attention->add_option("--tokens", options->attention.tokens, "tokens of a call")->check(CLI::PositiveNumber);
  add_sizes(*attention, "--seq-len", options->attention.seq_lens, "tokens a row");
  add_sizes(*attention, "--documents", options->attention.documents, "documents of equal length a row");
  add_sizes(*attention, "--head-dim", options->attention.head_dims, "elements of a head");
  attention
      ->add_option("--window", options->attention.window, "keys that a query sees in the problems with a window; 0: none")
      ->check(CLI::NonNegativeNumber);
  add_machine(*attention, *options);
  add_common(*attention, *options);
}

}  // namespace ida::app
