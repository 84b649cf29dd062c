#include "metrics/progress_line.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <iterator>

namespace ida::metrics {

std::string format_si(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t idx = 0;
  // 999.5 would round to the four digits "1000".
  while (std::abs(value) >= 999.5 && idx + 1 < std::size(kSuffixes)) {
    value /= 1000.0;
    ++idx;
  }
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, idx == 0 && value == std::trunc(value) ? 0 : decimals, kSuffixes[idx]);
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e10;  // past three centuries the number says nothing
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kLongest) return "--";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02d}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02d}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02d}h", s / 86400, s % 86400 / 3600);
}

std::string format_progress(const Progress& progress) {
  return fmt::format("step {}/{}  loss {:.4f}  {} tok/s  eta {}  grad {:.3g}  lr {:.2e}  mfu {}", progress.step,
                     progress.num_steps, progress.loss, format_si(progress.tokens_per_s),
                     progress.eta_s ? format_duration(*progress.eta_s) : "--", progress.grad_norm, progress.lr,
                     progress.mfu_frac ? fmt::format("{:.1f}%", *progress.mfu_frac * 100.0) : "n/a");
}

ProgressLine::ProgressLine(const Options& options)
    : fd_(options.fd),
      terminal_(options.terminal.value_or(::isatty(options.fd) == 1)),
      interval_s_(terminal_ ? options.terminal_interval_s : options.plain_interval_s) {}

ProgressLine::~ProgressLine() {
  if (line_open_) put("\n");
}

void ProgressLine::update(const Progress& progress) {
  update(progress, std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

void ProgressLine::update(Progress progress, double now_s) {
  if (!first_s_) {
    first_s_ = now_s;
    first_step_ = progress.step;
  }
  if (progress.step > first_step_) {
    const double step_s = (now_s - *first_s_) / static_cast<double>(progress.step - first_step_);
    progress.eta_s = step_s * static_cast<double>(progress.num_steps - progress.step);
  }
  show(format_progress(progress), progress.step >= progress.num_steps, now_s);
}

void ProgressLine::show(std::string line, bool always, double now_s) {
  if (last_shown_s_ && !always && now_s - *last_shown_s_ < interval_s_) return;
  last_shown_s_ = now_s;
  if (!terminal_) {
    put(line + '\n');
    return;
  }
  // A line that wraps cannot be rewritten.
  if (const auto width = static_cast<std::size_t>(columns()); width > 1 && line.size() >= width) line.resize(width - 1);
  put("\r" + line + "\x1b[K");
  line_open_ = true;
}

void ProgressLine::message(std::string_view text) {
  put((line_open_ ? "\r\x1b[K" : "") + std::string(text) + '\n');
  line_open_ = false;
}

// Progress is a courtesy: a closed pipe or a full disk under the terminal's log must not stop a run.
void ProgressLine::put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

int ProgressLine::columns() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace ida::metrics
