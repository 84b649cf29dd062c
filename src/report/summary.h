// The few numbers of a run that the console, `--out` and the head of the report show.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "report/run_files.h"

namespace ida::report {

struct RunSummary {
  std::string name;
  std::string status;       // of evidence.json; empty where unknown
  std::int64_t steps = 0;   // of the last record
  std::int64_t tokens = 0;  // target tokens up to it
  std::int64_t parameters = 0;
  std::optional<double> first_loss;  // first and last logged training loss; may be NaN
  std::optional<double> final_loss;
  std::optional<double> val_loss;  // last validation, nats per token
  std::optional<double> val_bits_per_byte;
  std::optional<double> tokens_per_s;  // median of the records: the slow first step does not count
  std::optional<double> elapsed_s;
  std::int64_t num_gemm_calls = 0;
  std::int64_t num_fallbacks = 0;  // of them, calls that did not take the planned engine
};

RunSummary summarise(const RunFiles& files);
// Reads the folder; errors as read_run.
RunSummary summarise_run(const std::string& run_dir);

// One JSON object with the members as keys; what has no value or is not finite is left out, the latter named under
// "non_finite".
std::string to_json(const RunSummary& summary);

}  // namespace ida::report
