// samples.jsonl: what the model wrote when it was asked during training, one JSON object a line:
//   {"step":200,"prompt":"Once","text":" upon a time"}
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "metrics/append_file.h"

namespace ida::metrics {

struct Sample {
  std::int64_t step = 0;
  std::string prompt;
  std::string text;  // the continuation alone
  bool operator==(const Sample&) const = default;
};

class SamplesJsonl {
 public:
  // Cuts samples of later steps, as for metrics.jsonl; `resume_step` -1: a fresh run.
  SamplesJsonl(const std::string& path, std::int64_t resume_step);
  // Bytes that are not UTF-8 (a token cut in two) become U+FFFD.
  void write(const Sample& sample);

 private:
  AppendFile file_;
};

// Those that can be read, in file order; none where there is no file.
std::vector<Sample> read_samples(const std::string& path);

}  // namespace ida::metrics
