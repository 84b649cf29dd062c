// The live line of `train`: one line that rewrites itself on a terminal, a plain line now and then elsewhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ida::metrics {

struct Progress {
  std::int64_t step = 0;
  std::int64_t num_steps = 0;
  double loss = 0.0;
  double tokens_per_s = 0.0;
  double grad_norm = 0.0;
  double lr = 0.0;
  std::optional<double> mfu_frac;  // absent where the device's peak is unknown
  std::optional<double> eta_s;     // set by ProgressLine
};

// "step 120/600  loss 3.2140  12.3k tok/s  eta 1m32s  grad 0.871  lr 3.00e-04  mfu n/a"
std::string format_progress(const Progress& progress);
// "12.3k", "1.63M"; three significant digits.
std::string format_si(double value);
// "45s", "3m05s", "2h07m", "3d04h".
std::string format_duration(double seconds);

class ProgressLine {
 public:
  struct Options {
    int fd = 2;                    // standard error: standard output stays for results
    std::optional<bool> terminal;  // default: what the descriptor is
    double terminal_interval_s = 0.1;
    double plain_interval_s = 10.0;
  };
  explicit ProgressLine(const Options& options);
  ProgressLine() : ProgressLine(Options{}) {}
  // Ends an unfinished line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows the state unless the last showing is too recent; the first and the last step are always shown. The ETA is
  // the mean time of the steps since the first call, so a resumed run does not count steps of earlier starts.
  // `now_s`: any monotonic clock.
  void update(Progress progress, double now_s);
  void update(const Progress& progress);
  // Shows a line of another kind, by the same rules of what is too recent; `always` shows it regardless.
  void show(std::string line, bool always, double now_s);
  // Prints a line of its own (an evaluation, a saved checkpoint) without leaving remains of the live one.
  void message(std::string_view text);

 private:
  void put(std::string_view text);
  int columns() const;

  int fd_;
  bool terminal_;
  double interval_s_;
  bool line_open_ = false;
  std::optional<double> last_shown_s_;
  std::int64_t first_step_ = 0;
  std::optional<double> first_s_;
};

}  // namespace ida::metrics
