#include "train/build_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

namespace ida::train {

using metrics::format_duration;
using metrics::format_si;

std::string format_build_progress(const std::string& name, const data::BuildReport& start, const data::BuildReport& now,
                                  double now_s) {
  const auto share = [&](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(now.total_bytes); };
  std::string line = name;
  if (now.total_bytes > 0) line += fmt::format("  {:.1f}%", 100.0 * share(now.read_bytes));
  line += fmt::format("  {} documents  {} tokens  {} parts", format_si(static_cast<double>(now.num_documents)),
                      format_si(static_cast<double>(now.num_tokens)), now.num_parts);
  const std::int64_t read_bytes = now.read_bytes - start.read_bytes;
  if (now_s <= 0.0 || read_bytes <= 0) return line;
  line += fmt::format("  {} tok/s", format_si(static_cast<double>(now.num_tokens - start.num_tokens) / now_s));
  if (now.total_bytes > 0)
    line += fmt::format("  eta {}", format_duration(now_s * share(now.total_bytes - now.read_bytes) / share(read_bytes)));
  return line;
}

BuildProgressLine::BuildProgressLine(std::string name, const metrics::ProgressLine::Options& options)
    : name_(std::move(name)),
      line_(options),
      quiet_s_(options.terminal.value_or(::isatty(options.fd) == 1) ? options.terminal_interval_s
                                                                    : options.plain_interval_s) {}

void BuildProgressLine::update(const data::BuildReport& report) {
  update(report, std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

void BuildProgressLine::update(const data::BuildReport& report, double now_s) {
  if (!first_s_) {
    first_s_ = now_s;
    first_ = report;
  }
  if (now_s - *first_s_ < quiet_s_) return;
  line_.show(format_build_progress(name_, first_, report, now_s - *first_s_), false, now_s);
}

}  // namespace ida::train
