#include "report/engines.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "report/html.h"

namespace ida::report {
namespace {

using evidence::Counts;
using evidence::EvidenceRecord;

std::int64_t sum_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [name, calls] : counts) sum += calls;
  return sum;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "";
  const double value = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  // A share that is not the whole must not round up to it, nor down to nothing.
  if (part != whole && value > 99.95) return ">99.9%";
  if (part != 0 && value < 0.05) return "<0.1%";
  return fmt::format("{:.1f}%", value);
}

std::string calls_in_words(std::int64_t calls) {
  return fmt::format("{} matrix product{}", with_separators(calls), calls == 1 ? "" : "s");
}

std::optional<std::string> library_in_words(std::string_view part) {
  if (part == "onednn") return "oneDNN";
  if (part == "blocked") return "the engine's own blocked form";
  if (part == "definition") return "the plain definition";
  if (part == "vector") return "the engine's own vector form";
  if (part == "threaded") return "the engine's own threaded form";
  return std::nullopt;
}

std::optional<std::string> operands_in_words(std::string_view part) {
  if (part == "f32" || part == "bf16") return fmt::format("{} operands", part);
  if (part == "bf16_widened") return "bf16 operands widened to f32 (exact products)";
  return std::nullopt;
}

// Most calls first.
std::vector<std::pair<std::string, std::int64_t>> by_calls(const Counts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

std::string module_rows(const EvidenceRecord& record) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [module, counts] : record.modules)
    for (const auto& [engine, calls] : counts.engines)
      rows.push_back({module, engine, with_separators(calls), percent(calls, sum_of(counts.engines))});
  return table({"module", "engine", "calls", "of the module"}, rows);
}

std::string fallback_rows(const EvidenceRecord& record) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [module, counts] : record.modules)
    for (const auto& [reason, calls] : counts.fallbacks) rows.push_back({module, reason, with_separators(calls)});
  return "<h3>Fallbacks</h3>\n" + table({"module", "reason", "calls"}, rows);
}

std::string plan_rows(const EvidenceRecord& record) {
  std::vector<std::vector<std::string>> rows;
  for (const evidence::PlanFacts& row : record.plan) {
    std::string refused;
    for (const evidence::RefusedEngine& entry : row.refused)
      refused += fmt::format("{}{}: {} ({})", refused.empty() ? "" : "; ", entry.engine, entry.reason, entry.kind);
    rows.push_back({row.module, row.pass, row.engine, row.desc, with_separators(row.num_sites), refused});
  }
  return "<details><summary>Plan: the engine of each module and pass, and what was passed over</summary>\n" +
         table({"module", "pass", "engine", "problem", "sites", "passed over because"}, rows) + "</details>\n";
}

std::string count_rows(std::string_view title, const Counts& counts) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, calls] : counts) rows.push_back({name, with_separators(calls)});
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape(title), table({"name", "calls"}, rows));
}

}  // namespace

std::string engine_in_words(std::string_view name) {
  const std::size_t first = name.find('.');
  if (name.substr(0, first) != "cpu" || first == std::string_view::npos) return std::string(name);
  const std::string_view rest = name.substr(first + 1);
  const std::size_t second = rest.find('.');
  const auto library = library_in_words(rest.substr(0, second));
  if (!library) return std::string(name);
  if (second == std::string_view::npos) return *library + " on the CPU";
  const auto operands = operands_in_words(rest.substr(second + 1));
  return operands ? fmt::format("{} on the CPU, {}", *library, *operands) : std::string(name);
}

std::string what_executed(const EvidenceRecord& record) {
  const Counts engines = record.engines();
  const std::int64_t calls = sum_of(engines);
  if (calls == 0) return "No matrix product ran.";
  std::string text;
  if (engines.size() == 1) {
    text = fmt::format("{} ran, all on {}: {}.", calls_in_words(calls), engines.begin()->first,
                       engine_in_words(engines.begin()->first));
  } else {
    text = fmt::format("{} ran, on {} engines.", calls_in_words(calls), engines.size());
  }
  const Counts fallbacks = record.fallbacks();
  const std::int64_t left = sum_of(fallbacks);
  if (left == 0) return text + " Every one took the engine that was planned for it: no fallback.";
  text += fmt::format(" {} ({}) did not take the planned engine:", with_separators(left), percent(left, calls));
  std::string separator = " ";
  for (const auto& [reason, count] : by_calls(fallbacks)) {
    text += fmt::format("{}{} x {}", separator, with_separators(count), reason);
    separator = ", ";
  }
  return text + ".";
}

std::string engines_section(const EvidenceRecord& record) {
  const Counts engines = record.engines();
  std::string out = fmt::format("<p>{}</p>\n", escape(what_executed(record)));
  const evidence::PrecisionFacts& precision = record.precision;
  out += key_value_table({{"compute", precision.compute},
                          {"weights between updates", precision.master},
                          {"weights handed out", precision.inference},
                          {"recipe asked for", record.run.recipe}});
  std::vector<std::vector<std::string>> rows;
  for (const auto& [engine, calls] : by_calls(engines))
    rows.push_back({engine, engine_in_words(engine), with_separators(calls), percent(calls, sum_of(engines))});
  out += "<h3>Engines</h3>\n" + table({"engine", "in words", "calls", "of all"}, rows);
  if (!record.fallbacks().empty()) out += fallback_rows(record);
  if (!record.modules.empty())
    out += "<details><summary>Engines by module</summary>\n" + module_rows(record) + "</details>\n";
  if (!record.plan.empty()) out += plan_rows(record);
  if (!record.ops.empty()) out += count_rows("Other operations and what ran them", record.ops);
  if (!record.kernels.empty()) out += count_rows("Device kernels seen", record.kernels);
  return out;
}

}  // namespace ida::report
