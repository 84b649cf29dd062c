// What a run's folder holds, as far as it can be read. A report must come out of a run that was killed, so nothing here
// fails on damage: it is collected as warnings for the reader.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "evidence/record.h"
#include "metrics/metrics_jsonl.h"
#include "metrics/samples_jsonl.h"

namespace ida::report {

struct RunFiles {
  std::string dir;
  std::string name;         // from evidence.json, else the folder's name
  std::string config_text;  // config.resolved.toml, empty where it is missing
  metrics::MetricsLog metrics;
  std::vector<metrics::Sample> samples;
  std::optional<evidence::EvidenceRecord> evidence;
  std::vector<std::string> warnings;
};

// kUsage where `run_dir` is no folder or holds none of config.resolved.toml, metrics.jsonl and evidence.json.
RunFiles read_run(const std::string& run_dir);

}  // namespace ida::report
