#include "metrics/samples_jsonl.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "metrics/metrics_jsonl.h"

namespace ida::metrics {
namespace {

using Json = nlohmann::ordered_json;

std::string cut_to_step(const std::string& path, std::int64_t resume_step) {
  truncate_metrics_after(path, resume_step);
  return path;
}

}  // namespace

SamplesJsonl::SamplesJsonl(const std::string& path, std::int64_t resume_step)
    : file_(cut_to_step(path, resume_step), AppendFile::Mode::kAppend, 0) {}

void SamplesJsonl::write(const Sample& sample) {
  const Json line = {{"step", sample.step}, {"prompt", sample.prompt}, {"text", sample.text}};
  file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

std::vector<Sample> read_samples(const std::string& path) {
  std::vector<Sample> samples;
  if (!path_exists(path)) return samples;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    Sample sample;
    sample.step = json["step"].get<std::int64_t>();
    if (json.contains("prompt") && json["prompt"].is_string()) sample.prompt = json["prompt"].get<std::string>();
    if (json.contains("text") && json["text"].is_string()) sample.text = json["text"].get<std::string>();
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace ida::metrics
