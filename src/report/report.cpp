#include "report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "metrics/progress_line.h"
#include "report/chart.h"
#include "report/engines.h"
#include "report/html.h"
#include "report/summary.h"

namespace ida::report {
namespace {

Series series_of(const metrics::MetricsLog& log, std::string_view key, std::string name) {
  Series series{.name = std::move(name), .points = {}, .markers = false};
  for (const auto& record : log.records)
    if (const double* value = record.find(key)) series.points.emplace_back(static_cast<double>(record.step), *value);
  return series;
}

// Keys "val_loss/<source>" in order of appearance.
std::vector<std::string> source_keys(const metrics::MetricsLog& log) {
  const std::string prefix = std::string(metrics::kValLoss) + "/";
  std::vector<std::string> keys;
  for (const auto& record : log.records)
    for (const auto& [key, value] : record.values)
      if (key.rfind(prefix, 0) == 0 && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  return keys;
}

std::string charts(const metrics::MetricsLog& log) {
  Chart loss{.title = "Loss, nats per token", .x_name = "step", .series = {}, .wide = true};
  loss.series.push_back(series_of(log, metrics::kLoss, "training"));
  loss.series.push_back(series_of(log, metrics::kValLoss, "validation"));
  loss.series[1].markers = true;
  std::string out = "<div class=\"charts\">\n" + render(loss);
  if (const auto keys = source_keys(log); keys.size() > 1) {
    Chart sources{.title = "Validation loss by source", .x_name = "step", .series = {}, .wide = true};
    for (const std::string& key : keys) {
      sources.series.push_back(series_of(log, key, key.substr(metrics::kValLoss.size() + 1)));
      sources.series.back().markers = true;
    }
    out += render(sources);
  }
  const auto small = [&](std::string title, std::string_view key) {
    out += render({.title = std::move(title), .x_name = "step", .series = {series_of(log, key, std::string(key))}});
  };
  small("Learning rate", metrics::kLr);
  small("Gradient norm before clipping", metrics::kGradNorm);
  small("Tokens per second", metrics::kTokensPerSecond);
  return out + "</div>\n";
}

std::string card(std::string_view name, const std::string& value) {
  return fmt::format("<div class=\"card\"><div class=\"value\">{}</div><div class=\"name\">{}</div></div>\n", escape(value),
                     escape(name));
}

std::string cards(const RunSummary& summary) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : "n/a"; };
  std::string out = "<div class=\"cards\">\n";
  out += card("training loss, last", number(summary.final_loss));
  out += card("training loss, first", number(summary.first_loss));
  out += card("validation loss", number(summary.val_loss));
  out += card("bits per byte", number(summary.val_bits_per_byte));
  out += card("steps", with_separators(summary.steps));
  out += card("tokens", metrics::format_si(static_cast<double>(summary.tokens)));
  out += card("tokens per second", summary.tokens_per_s ? metrics::format_si(*summary.tokens_per_s) : "n/a");
  out += card("time", summary.elapsed_s ? metrics::format_duration(*summary.elapsed_s) : "n/a");
  out += card("parameters", summary.parameters > 0 ? metrics::format_si(static_cast<double>(summary.parameters)) : "n/a");
  return out + "</div>\n";
}

std::string warnings(const RunFiles& files) {
  std::string out;
  for (const std::string& warning : files.warnings) out += fmt::format("<p class=\"bad\">{}</p>\n", escape(warning));
  std::int64_t num_steps = 0;
  std::set<std::string> keys;
  std::int64_t first_step = 0;
  for (const auto& record : files.metrics.records) {
    const auto bad = [](const auto& value) { return !std::isfinite(value.second); };
    if (std::none_of(record.values.begin(), record.values.end(), bad)) continue;
    if (num_steps++ == 0) first_step = record.step;
    for (const auto& value : record.values)
      if (bad(value)) keys.insert(value.first);
  }
  if (num_steps == 0) return out;
  std::string names;
  for (const std::string& key : keys) names += (names.empty() ? "" : ", ") + key;
  return out + fmt::format("<p class=\"bad\">Not finite at {} step(s), the first of them {}: {}</p>\n", num_steps,
                           first_step, escape(names));
}

std::string samples_section(const std::vector<metrics::Sample>& samples) {
  if (samples.empty()) return "";
  constexpr std::size_t kShown = 12;
  const std::size_t num_shown = std::min(samples.size(), kShown);
  std::string out = "<h2>Samples</h2>\n";
  if (num_shown < samples.size())
    out += fmt::format("<p class=\"muted\">The last {} of {}, newest first.</p>\n", num_shown, samples.size());
  for (std::size_t i = 0; i < num_shown; ++i) {
    const metrics::Sample& sample = samples[samples.size() - 1 - i];
    out += fmt::format("<h3>step {}</h3>\n<pre><span class=\"prompt\">{}</span>{}</pre>\n", sample.step,
                       escape(sample.prompt), escape(sample.text));
  }
  return out;
}

std::string last_values(const metrics::MetricsLog& log) {
  std::vector<std::vector<std::string>> rows;
  std::set<std::string> seen;
  for (auto record = log.records.rbegin(); record != log.records.rend(); ++record)
    for (const auto& [key, value] : record->values)
      if (seen.insert(key).second) rows.push_back({key, fmt::format("{:.6g}", value), with_separators(record->step)});
  if (rows.empty()) return "";
  return "<details><summary>Last value of every metric</summary>\n" + table({"metric", "value", "step"}, rows) +
         "</details>\n";
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string environment_section(const evidence::EvidenceRecord& record) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"command", joined(record.run.argv)},
      {"started", record.run.started_at},
      {"finished", record.run.finished_at},
      {"device", fmt::format("{} ({}, {} cores, {:.1f} GiB)", record.device.name, record.device.backend,
                             record.device.cores, static_cast<double>(record.device.memory_bytes) / (1 << 30))},
      {"instruction sets", joined(record.device.isa)},
      {"system", record.environment.os},
      {"kernel", record.environment.kernel},
      {"host", record.environment.hostname},
      {"program", fmt::format("ida-train {}, commit {}, {} {}", record.build.version, record.build.commit,
                              record.build.compiler, record.build.type)},
      {"config hash", record.run.config_hash},
      {"data fingerprint", record.run.data_fingerprint}};
  for (const auto& [library, version] : record.libraries) rows.emplace_back(library, version);
  std::erase_if(rows, [](const auto& row) { return row.second.empty(); });
  return "<h2>Environment</h2>\n" + key_value_table(rows);
}

}  // namespace

std::string render_report(const RunFiles& files) {
  const RunSummary summary = summarise(files);
  const std::string title = escape(files.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{} - ida-train</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n<p class=\"muted\">{}{}</p>\n",
      title, style_sheet(), title, escape(summary.status.empty() ? "status unknown" : "status: " + summary.status),
      files.evidence && !files.evidence->run.started_at.empty() ? ", started " + escape(files.evidence->run.started_at)
                                                                : "");
  out += warnings(files) + cards(summary);
  out += "<h2>Curves</h2>\n";
  out += files.metrics.records.empty() ? "<p class=\"muted\">No step was recorded.</p>\n" : charts(files.metrics);
  out += last_values(files.metrics);
  if (files.evidence) out += "<h2>What executed</h2>\n" + engines_section(*files.evidence);
  out += samples_section(files.samples);
  out += "<h2>Resolved configuration</h2>\n";
  out += files.config_text.empty() ? "<p class=\"muted\">config.resolved.toml is not there.</p>\n"
                                   : "<pre>" + escape(files.config_text) + "</pre>\n";
  if (files.evidence) out += environment_section(*files.evidence);
  return out + "</body>\n</html>\n";
}

std::string write_report(const std::string& run_dir) {
  const std::string path = run_dir + "/report.html";
  write_file_atomic(path, render_report(read_run(run_dir)));
  return path;
}

}  // namespace ida::report
