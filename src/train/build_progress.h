// How far a build of token shards is, on standard error: one line that rewrites itself on a terminal, a plain line now and
// then elsewhere.
#pragma once
#include <optional>
#include <string>

#include "data/build_shard.h"
#include "metrics/progress_line.h"

namespace ida::train {

// "train.shard  42.0%  1.23k documents  56.1k tokens  0 parts  4.20M tok/s  eta 12s"; the share and the ETA are left out
// where the size of the sources is not known. `now_s` counts from the build's start, `start` is the report at that time.
std::string format_build_progress(const std::string& name, const data::BuildReport& start, const data::BuildReport& now,
                                  double now_s);

class BuildProgressLine {
 public:
  // `name` of what is built.
  explicit BuildProgressLine(std::string name, const metrics::ProgressLine::Options& options = {});
  void update(const data::BuildReport& report, double now_s);  // any monotonic clock
  void update(const data::BuildReport& report);

 private:
  std::string name_;
  metrics::ProgressLine line_;
  double quiet_s_;  // a build that ends sooner shows nothing
  std::optional<double> first_s_;
  data::BuildReport first_;
};

}  // namespace ida::train
