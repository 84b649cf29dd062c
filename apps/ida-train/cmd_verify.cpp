// ida-train verify golden|checkpoint|export|data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/lineage.h"
#include "common.h"
#include "data/shard_index.h"
#include "data/source_manifest.h"
#include "eval/verify_formats.h"
#include "train/convert.h"
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
  figures.update({{"case", options.dir},
                  {"backend", options.backend},
                  {"dtype", options.dtype},
                  {"rtol", options.rtol},
                  {"passed", report.passed()},
                  {"checks", std::move(checks)}});
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
    fmt::print("{:<6} {:<60} error {:.3e}  bar {:.1e}\n", check.passed() ? "ok" : "FAILED", check.name,
               check.relative_error, check.tolerance);
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
  CLI::App* command =
      add_command(group, "golden", "compare logits, loss, gradients and optimizer losses with a reference case", program,
                  [options, &program] { return run_golden(*options, program); });
  command->add_option("DIR", options->dir, "folder with config.json, model.safetensors, golden.safetensors")->required();
  command->add_option("--backend", options->backend, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--dtype", options->dtype, "compute type, f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--rtol", options->rtol, "bar of the relative errors; late Lion losses keep 5e-3")
      ->check(CLI::PositiveNumber);
  add_out(*command, options->out);
}

struct FormatsOptions {
  std::string file;
  std::string backend = "cpu";
  std::string out;
};

ExitCode run_formats(const FormatsOptions& options, const Program& program) {
  require_file(options.file, "a file of format cases");
  Machine machine = open_machine(options.backend, program.threads);
  const std::vector<eval::FormatCheck> checks = eval::verify_formats(options.file, machine.device, machine.backend);
  nlohmann::json rows = nlohmann::json::array();
  std::size_t num_failed = 0;
  for (const eval::FormatCheck& check : checks) {
    fmt::print("{:<6} {:<32} {} of {} codes and {} of {} scales differ{}{}\n", check.passed() ? "ok" : "FAILED", check.name,
               check.wrong_codes, check.num_codes, check.wrong_scales, check.num_scales,
               check.first.empty() ? "" : "; first: ", check.first);
    num_failed += check.passed() ? 0 : 1;
    rows.push_back({{"name", check.name},
                    {"codes", check.num_codes},
                    {"scales", check.num_scales},
                    {"wrong_codes", check.wrong_codes},
                    {"wrong_scales", check.wrong_scales},
                    {"passed", check.passed()}});
  }
  fmt::print("{}: {} of {} cases equal to the last bit on {}\n", options.file, checks.size() - num_failed, checks.size(),
             options.backend);
  write_figures(options.out,
                {{"file", options.file}, {"backend", options.backend}, {"passed", num_failed == 0}, {"checks", rows}});
  return num_failed == 0 ? ExitCode::kDone : ExitCode::kRuntime;
}

void add_formats(CLI::App& group, Program& program) {
  auto options = std::make_shared<FormatsOptions>();
  CLI::App* command = add_command(group, "formats", "quantise given matrices and compare every code and scale", program,
                                  [options, &program] { return run_formats(*options, program); });
  command->add_option("FILE", options->file, "safetensors file of inputs, codes and scales")->required();
  command->add_option("--backend", options->backend, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  add_out(*command, options->out);
}

struct FolderOptions {
  std::string dir;
  std::string source;
  bool lineage = false;
  std::string out;
};

ExitCode show_problems(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) fmt::print("FAILED {}\n", problem);
  if (problems.empty()) return ExitCode::kDone;
  fmt::print(stderr, "ida-train: error: {}\n", problems.front());
  return ExitCode::kCorrupt;
}

nlohmann::json lineage_json(const checkpoint::Manifest& manifest) {
  const checkpoint::Lineage& from = manifest.lineage;
  return {{"run", from.run_id},
          {"parent", from.parent},
          {"config_hash", from.config_hash},
          {"data_fingerprint", from.data_fingerprint},
          {"build", from.build_id}};
}

// A row per checkpoint, below its parent.
nlohmann::json show_lineage(const std::string& dir, std::vector<std::string>& problems) {
  std::vector<std::string> dirs = checkpoint::find_checkpoints(dir);
  if (dirs.size() == 1) dirs = checkpoint::find_checkpoints(parent_path(dirs.front()));  // its siblings, too
  nlohmann::json figures = nlohmann::json::array();
  for (const checkpoint::LineageRow& row : checkpoint::lineage_tree(dirs, problems)) {
    const checkpoint::Manifest& m = row.manifest;
    std::string text =
        fmt::format("{}{}/{}  id {:.12}", row.branch, m.lineage.run_id, checkpoint::step_name(m.step), m.id());
    for (const auto& [name, value] : m.scores) text += fmt::format("  {} {:.4f}", name, value);
    if (m.lineage.parent.empty()) text += fmt::format("  from the start, config {:.12}", m.lineage.config_hash);
    if (row.parent_elsewhere) text += fmt::format("  from {:.12}, which is not here", m.lineage.parent);
    fmt::print("{}\n", text);
    figures.push_back(
        {{"dir", row.dir}, {"step", m.step}, {"id", m.id()}, {"scores", m.scores}, {"lineage", lineage_json(m)}});
  }
  return figures;
}

ExitCode run_checkpoint(const FolderOptions& options) {
  require_folder(options.dir, "a checkpoint folder step-N, a run, or a folder of runs");
  std::vector<std::string> problems;
  std::int64_t num_tensors = 0;
  std::int64_t num_values = 0;
  nlohmann::json figures = {{"dir", options.dir}};
  const std::vector<std::string> dirs = checkpoint::find_checkpoints(options.dir);
  for (const std::string& dir : dirs) {
    const checkpoint::VerifyReport report = checkpoint::verify_checkpoint(dir);
    const checkpoint::Manifest& m = report.manifest;
    num_tensors += report.num_tensors;
    num_values += report.num_values;
    problems.insert(problems.end(), report.problems.begin(), report.problems.end());
    if (!report.problems.empty()) continue;
    fmt::print("ok     {}: {} files as the manifest says, {} tensors, {} values, all finite\n",
               dirs.size() == 1 ? fmt::format("step {}", m.step) : dir, m.files.size(), report.num_tensors,
               report.num_values);
    if (dirs.size() == 1)
      figures.update({{"step", m.step}, {"id", m.id()}, {"scores", m.scores}, {"lineage", lineage_json(m)}});
  }
  // A manifest that the tree cannot read was already found damaged, if it belongs to what was asked for.
  std::vector<std::string> unreadable;
  if (options.lineage) figures["tree"] = show_lineage(options.dir, unreadable);
  figures.update({{"passed", problems.empty()}, {"problems", problems}, {"tensors", num_tensors}, {"values", num_values}});
  write_figures(options.out, figures);
  return show_problems(problems);
}

ExitCode run_export_check(const FolderOptions& options, const Program& program) {
  require_folder(options.dir, "a model folder");
  const std::string source = options.source.empty() ? "" : model_folder(options.source);
  Machine machine = open_machine("auto", program.threads);
  const train::ExportReport report = train::verify_export(options.dir, source, machine.device, machine.backend);
  if (report.problems.empty()) {
    fmt::print("ok     {} tensors, {} values, all finite; {} logits of a forward pass, all finite\n", report.num_tensors,
               report.num_values, report.num_logits);
    fmt::print("ok     hashes: {}\n",
               report.has_manifest ? "as manifest.json says" : "none, the folder has no manifest.json");
    if (!source.empty()) fmt::print("ok     equal to {}\n", source);
  }
  write_figures(options.out, {{"dir", options.dir},
                              {"source", source},
                              {"passed", report.problems.empty()},
                              {"problems", report.problems},
                              {"has_manifest", report.has_manifest},
                              {"tensors", report.num_tensors},
                              {"values", report.num_values},
                              {"logits", report.num_logits}});
  return show_problems(report.problems);
}

void add_checkpoint(CLI::App& group, Program& program) {
  auto options = std::make_shared<FolderOptions>();
  CLI::App* command = add_command(group, "checkpoint", "hashes and finite values of checkpoints, their lineage", program,
                                  [options] { return run_checkpoint(*options); });
  command->add_option("DIR", options->dir, "folder step-N, a run (all its checkpoints), or a folder of runs")->required();
  command->add_flag("--lineage", options->lineage, "also show where they came from, as a tree");
  add_out(*command, options->out);
}

void add_export_check(CLI::App& group, Program& program) {
  auto options = std::make_shared<FolderOptions>();
  CLI::App* command =
      add_command(group, "export", "reload a model folder: hashes, names, shapes, finite values, a forward pass", program,
                  [options, &program] { return run_export_check(*options, program); });
  command->add_option("DIR", options->dir, "model folder")->required();
  command->add_option("--source", options->source, "run, checkpoint or model folder whose values it must have");
  add_out(*command, options->out);
}

struct DataOptions {
  std::string shard;
  std::string manifest;
  std::string out;
};

ExitCode run_data(const DataOptions& options, const Program& program) {
  set_num_threads(static_cast<int>(program.threads));
  require_file(options.shard, "a token shard");
  if (!options.shard.ends_with(".shard")) fail_usage("{}: expected a name that ends in .shard", options.shard);
  const std::vector<data::TokenShard> shards = data::open_shards(options.shard);
  const std::string manifest = options.manifest.empty() ? data::manifest_path(options.shard) : options.manifest;
  require_file(manifest, "the manifest that data build wrote");
  data::ManifestCheck check = data::check_source_manifest(manifest);
  if (check.build_key != shards.front().build_key())
    check.problems.insert(check.problems.begin(),
                          fmt::format("{}: belongs to another build than {}", manifest, options.shard));
  if (check.problems.empty())
    fmt::print("ok     {}: {} parts, every hash as written; {} source files as {} says\n", options.shard, shards.size(),
               check.num_files, manifest);
  write_figures(options.out, {{"shard", options.shard},
                              {"manifest", manifest},
                              {"passed", check.problems.empty()},
                              {"problems", check.problems},
                              {"parts", shards.size()},
                              {"files", check.num_files}});
  return show_problems(check.problems);
}

void add_data_check(CLI::App& group, Program& program) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* command = add_command(group, "data", "hashes of a shard, and its sources against their manifest", program,
                                  [options, &program] { return run_data(*options, program); });
  command->add_option("SHARD", options->shard, "FILE.shard")->required();
  command->add_option("--manifest", options->manifest, "default: NAME.manifest.json beside the shard");
  add_out(*command, options->out);
}

}  // namespace

void add_verify(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "verify", "check a model, a checkpoint, an export or a shard");
  add_golden(*group, program);
  add_formats(*group, program);
  add_checkpoint(*group, program);
  add_export_check(*group, program);
  add_data_check(*group, program);
}

}  // namespace ida::app
