#include "report/run_files.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace ida::report {
namespace {

// Runs `read` and turns its failure into a warning.
template <typename Read>
void attempt(std::vector<std::string>& warnings, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    warnings.push_back(error.what());
  }
}

}  // namespace

RunFiles read_run(const std::string& run_dir) {
  if (!is_directory(run_dir)) fail_usage("{}: no such run folder", run_dir);
  const std::string config = run_dir + "/config.resolved.toml";
  const std::string metrics = run_dir + "/metrics.jsonl";
  const std::string evidence = run_dir + "/evidence.json";
  if (!path_exists(config) && !path_exists(metrics) && !path_exists(evidence))
    fail_usage("{}: not a run folder: none of config.resolved.toml, metrics.jsonl and evidence.json is there", run_dir);

  RunFiles files;
  files.dir = run_dir;
  attempt(files.warnings, [&] {
    if (path_exists(config)) files.config_text = read_file(config);
  });
  attempt(files.warnings, [&] { files.metrics = metrics::read_metrics(metrics); });
  attempt(files.warnings, [&] { files.samples = metrics::read_samples(run_dir + "/samples.jsonl"); });
  attempt(files.warnings, [&] {
    if (path_exists(evidence)) files.evidence = evidence::read_evidence(evidence);
  });
  if (files.metrics.num_unreadable_lines > 0)
    files.warnings.push_back(
        fmt::format("metrics.jsonl: {} line(s) could not be read and are left out", files.metrics.num_unreadable_lines));
  if (!files.evidence) files.warnings.push_back("evidence.json is missing or unreadable: what executed is not known");
  if (files.evidence) files.name = files.evidence->run.name;
  if (files.name.empty()) files.name = std::filesystem::absolute(run_dir + "/.").parent_path().filename().string();
  return files;
}

}  // namespace ida::report
