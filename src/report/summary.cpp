#include "report/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ida::report {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> last_of(const metrics::MetricsLog& log, std::string_view key) {
  for (auto record = log.records.rbegin(); record != log.records.rend(); ++record)
    if (const double* value = record->find(key)) return *value;
  return std::nullopt;
}

std::optional<double> first_of(const metrics::MetricsLog& log, std::string_view key) {
  for (const auto& record : log.records)
    if (const double* value = record.find(key)) return *value;
  return std::nullopt;
}

std::optional<double> median_of(const metrics::MetricsLog& log, std::string_view key) {
  std::vector<double> values;
  for (const auto& record : log.records)
    if (const double* value = record.find(key); value != nullptr && std::isfinite(*value)) values.push_back(*value);
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t sum_of(const evidence::Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [name, calls] : counts) sum += calls;
  return sum;
}

}  // namespace

RunSummary summarise(const RunFiles& files) {
  const metrics::MetricsLog& log = files.metrics;
  RunSummary summary;
  summary.name = files.name;
  summary.first_loss = first_of(log, metrics::kLoss);
  summary.final_loss = last_of(log, metrics::kLoss);
  summary.val_loss = last_of(log, metrics::kValLoss);
  summary.val_bits_per_byte = last_of(log, metrics::kValBitsPerByte);
  summary.tokens_per_s = median_of(log, metrics::kTokensPerSecond);
  summary.elapsed_s = last_of(log, metrics::kElapsed);
  if (files.evidence) {
    const evidence::RunFacts& run = files.evidence->run;
    summary.status = run.status;
    summary.steps = run.steps;
    summary.tokens = run.tokens;
    summary.parameters = run.parameters;
    if (!summary.elapsed_s && run.elapsed_s > 0) summary.elapsed_s = run.elapsed_s;
    summary.num_gemm_calls = sum_of(files.evidence->engines());
    summary.num_fallbacks = sum_of(files.evidence->fallbacks());
  }
  if (!log.records.empty() && log.records.back().step >= summary.steps) {
    summary.steps = log.records.back().step;
    summary.tokens = log.records.back().tokens;
  }
  return summary;
}

RunSummary summarise_run(const std::string& run_dir) { return summarise(read_run(run_dir)); }

std::string to_json(const RunSummary& summary) {
  Json json = {{"name", summary.name},
               {"status", summary.status},
               {"steps", summary.steps},
               {"tokens", summary.tokens},
               {"parameters", summary.parameters},
               {"num_gemm_calls", summary.num_gemm_calls},
               {"num_fallbacks", summary.num_fallbacks}};
  const auto add = [&json](const char* key, const std::optional<double>& value) {
    if (!value) return;
    if (std::isfinite(*value)) {
      json[key] = *value;
    } else {
      json["non_finite"].push_back(key);
    }
  };
  add("first_loss", summary.first_loss);
  add("final_loss", summary.final_loss);
  add("val_loss", summary.val_loss);
  add("val_bits_per_byte", summary.val_bits_per_byte);
  add("tokens_per_s", summary.tokens_per_s);
  add("elapsed_s", summary.elapsed_s);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ida::report
