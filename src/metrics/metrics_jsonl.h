// metrics.jsonl: the run's curve, one JSON object a line.
//
//   {"step":12,"tokens":98304,"loss":4.125,"lr":0.0003,"grad_norm":0.87,"tokens_per_s":12345.5}
//   {"step":13,"tokens":106496,"lr":0.0003,"non_finite":["loss","grad_norm"]}
//
// Always valid JSON: a value that is NaN or infinite is left out and its key listed under "non_finite". Steps rise
// strictly, across restarts too.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace ida::metrics {

// One line without the line end.
std::string to_json_line(const MetricsRecord& record);

struct MetricsLog {
  std::vector<MetricsRecord> records;  // keys of "non_finite" come back as NaN, after the others
  std::int64_t num_unreadable_lines = 0;
  bool last_line_torn = false;  // it has no line end or is no record; counted above only when it is no record
};

// Reads what can be read: for reports, which must not fail on a run that was killed. A missing file is an empty log.
MetricsLog read_metrics(const std::string& path);

// Cuts a torn last line and every record with step > `step`, so that a run resumed from `step` does not repeat a step.
// Returns the last step kept, -1 where none is. An unreadable line before the last is damage (kCorrupt).
std::int64_t truncate_metrics_after(const std::string& path, std::int64_t step);

class MetricsJsonl : public MetricsSink {
 public:
  // Opens or creates `path` and cuts what lies after `resume_step` (-1: a fresh run, everything).
  // `sync_every`: fsync after this many lines; every line reaches the kernel at once.
  MetricsJsonl(const std::string& path, std::int64_t resume_step, int sync_every = 50);

  // A step that is already in the file is a fault of the caller and refused (kRuntime).
  void write(const MetricsRecord& record) override;
  void flush() override { file_.sync(); }

  std::int64_t last_step() const { return last_step_; }

 private:
  std::int64_t last_step_;  // declared before the file: the cut comes before the opening
  AppendFile file_;
};

}  // namespace ida::metrics
