#include "metrics/metrics_jsonl.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "metrics/json_text.h"

namespace ida::metrics {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNonFinite = "non_finite";

bool is_distinct_and_free(const MetricsRecord& record, std::size_t idx) {
  const std::string& key = record.values[idx].first;
  if (key == "step" || key == "tokens" || key == kNonFinite) return false;
  return record.find(key) == &record.values[idx].second;
}

std::optional<MetricsRecord> parse_line(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return std::nullopt;
  MetricsRecord record;
  record.step = object["step"].get<std::int64_t>();
  if (object.contains("tokens") && object["tokens"].is_number_integer())
    record.tokens = object["tokens"].get<std::int64_t>();
  for (const auto& [key, value] : object.items())
    if (value.is_number() && key != "step" && key != "tokens") record.set(key, value.get<double>());
  if (!object.contains(kNonFinite) || !object[kNonFinite].is_array()) return record;
  for (const auto& key : object[kNonFinite])
    if (key.is_string()) record.set(key.get<std::string>(), std::numeric_limits<double>::quiet_NaN());
  return record;
}

struct Line {
  std::string_view text;  // without the line end
  bool ended = true;
};

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    lines.push_back({text.substr(0, end), ended});
    text.remove_prefix(ended ? end + 1 : text.size());
  }
  return lines;
}

}  // namespace

std::string to_json_line(const MetricsRecord& record) {
  std::string line = fmt::format("{{\"step\":{},\"tokens\":{}", record.step, record.tokens);
  std::string non_finite;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    assert(is_distinct_and_free(record, i));
    const auto& [key, value] = record.values[i];
    if (!std::isfinite(value)) {
      if (!non_finite.empty()) non_finite += ',';
      append_json_string(non_finite, key);
      continue;
    }
    line += ',';
    append_json_string(line, key);
    line += ':';
    append_json_number(line, value);
  }
  if (!non_finite.empty()) line += fmt::format(",\"{}\":[{}]", kNonFinite, non_finite);
  line += '}';
  return line;
}

MetricsLog read_metrics(const std::string& path) {
  MetricsLog log;
  if (!path_exists(path)) return log;
  const std::string text = read_file(path);
  const std::vector<Line> lines = split_lines(text);
  for (const Line& line : lines) {
    if (auto record = parse_line(line.text)) {
      log.records.push_back(std::move(*record));
      log.last_line_torn = !line.ended;
    } else {
      ++log.num_unreadable_lines;
      log.last_line_torn = true;
    }
  }
  return log;
}

std::int64_t truncate_metrics_after(const std::string& path, std::int64_t step) {
  if (!path_exists(path)) return -1;
  const std::string text = read_file(path);
  const std::vector<Line> lines = split_lines(text);
  std::string kept;
  std::int64_t last_step = -1;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto record = parse_line(lines[i].text);
    const bool is_last = i + 1 == lines.size();
    if (is_last && (!record || !lines[i].ended)) break;
    if (!record)
      fail_corrupt(
          "{}: line {} is not a metrics record (a JSON object with an integer \"step\"); remove the line to resume", path,
          i + 1);
    if (record->step > step) continue;
    kept.append(lines[i].text).push_back('\n');
    last_step = std::max(last_step, record->step);
  }
  if (kept.size() != text.size()) write_file_atomic(path, kept);
  return last_step;
}

MetricsJsonl::MetricsJsonl(const std::string& path, std::int64_t resume_step, int sync_every)
    : last_step_(truncate_metrics_after(path, resume_step)), file_(path, AppendFile::Mode::kAppend, sync_every) {}

void MetricsJsonl::write(const MetricsRecord& record) {
  if (record.step <= last_step_)
    fail_runtime("{}: step {} is already written (last step {})", file_.path(), record.step, last_step_);
  last_step_ = record.step;  // also where the disk is full: the file keeps the line
  file_.append(to_json_line(record) + '\n');
}

}  // namespace ida::metrics
