#include "metrics/prometheus.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "base/file.h"
#include "metrics/json_text.h"

namespace ida::metrics {
namespace {

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string family_of(std::string_view key) {
  std::string family(key.substr(0, key.find('/')));
  std::replace_if(
      family.begin(), family.end(), [](unsigned char c) { return !(c == '_' || (c < 0x80 && std::isalnum(c) != 0)); }, '_');
  return family;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::string text;
  append_json_number(text, value);
  return text;
}

double monotonic_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string to_prometheus_text(const MetricsRecord& record, const std::string& run) {
  const std::string run_label = fmt::format("run=\"{}\"", label_value(run));
  std::string text = fmt::format(
      "# TYPE ida_train_step gauge\nida_train_step{{{0}}} {1}\n"
      "# TYPE ida_train_tokens_total counter\nida_train_tokens_total{{{0}}} {2}\n",
      run_label, record.step, record.tokens);
  std::vector<std::string> done;  // a family's samples stand together under one TYPE line
  for (const auto& first : record.values) {
    const std::string family = family_of(first.first);
    if (std::find(done.begin(), done.end(), family) != done.end()) continue;
    done.push_back(family);
    text += fmt::format("# TYPE ida_train_{} gauge\n", family);
    for (const auto& [key, value] : record.values) {
      if (family_of(key) != family) continue;
      const std::string key_label = key == family ? "" : fmt::format(",key=\"{}\"", label_value(key));
      text += fmt::format("ida_train_{}{{{}{}}} {}\n", family, run_label, key_label, number_text(value));
    }
  }
  return text;
}

PrometheusFile::PrometheusFile(std::string path, std::string run, double interval_s)
    : path_(std::move(path)),
      run_(std::move(run)),
      interval_s_(interval_s),
      last_write_s_(-std::numeric_limits<double>::infinity()) {}

void PrometheusFile::write(const MetricsRecord& record) {
  pending_ = to_prometheus_text(record, run_);
  if (monotonic_s() - last_write_s_ >= interval_s_) flush();
}

void PrometheusFile::flush() {
  if (pending_.empty()) return;
  write_file_atomic(path_, pending_);
  pending_.clear();
  last_write_s_ = monotonic_s();
}

}  // namespace ida::metrics
