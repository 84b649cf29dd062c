#include "train/run_folder.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace ida::train {
namespace {

constexpr std::string_view kLibraryChoicesName = "gemm_plans.json";

std::string library_choices_path(const std::string& run_dir) { return fmt::format("{}/{}", run_dir, kLibraryChoicesName); }

std::string config_path(const std::string& run_dir) { return run_dir + "/config.resolved.toml"; }

// "key = value" lines of a resolved dump with their section, without comments.
std::vector<std::string> setting_lines(const std::string& dump) {
  std::vector<std::string> lines;
  std::string section;
  for (std::size_t begin = 0; begin < dump.size();) {
    const std::size_t end = std::min(dump.find('\n', begin), dump.size());
    std::string line = dump.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("[")) section = line;
    const std::size_t comment = line.rfind("  #");
    if (comment != std::string::npos) line.resize(comment);
    if (line.empty() || line.starts_with("#") || line.starts_with("[")) continue;
    lines.push_back(section + " " + line);
  }
  return lines;
}

std::string first_difference(const std::string& stored, const std::string& now) {
  const std::vector<std::string> a = setting_lines(stored);
  const std::vector<std::string> b = setting_lines(now);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? a[i] : "(absent)";
    const std::string right = i < b.size() ? b[i] : "(absent)";
    if (left != right) return fmt::format("stored: {}, now: {}", left, right);
  }
  return "a default changed";
}

}  // namespace

std::string tokenizer_folder(const std::string& run_dir) { return run_dir + "/tokenizer"; }

void check_run_folder(const config::RunConfig& config, const std::string& run_dir) {
  const std::string path = config_path(run_dir);
  if (!path_exists(path)) {
    if (path_exists(run_dir + "/checkpoints"))
      fail_usage("{}: holds checkpoints but no config.resolved.toml; it is not a run of this program: use another run.name",
                 run_dir);
    return;
  }
  const std::string stored = read_file(path, config::kMaxConfigBytes);
  const config::RunConfig before = config::parse_run_config(stored, path);
  if (config::config_hash(before) == config::config_hash(config)) return;
  fail_usage("{}: the folder belongs to another configuration ({}); use another run.name or remove the folder", run_dir,
             first_difference(stored, config::dump_resolved(config)));
}

void write_run_config(const config::RunConfig& config, const std::string& run_dir) {
  make_directories(tokenizer_folder(run_dir));
  const std::string text = config::dump_resolved(config);
  const std::string path = config_path(run_dir);
  if (path_exists(path) && read_file(path, config::kMaxConfigBytes) == text) return;
  write_file_atomic(path, std::string_view(text));
}

std::string adopt_library_choices(runtime::Device& device, const std::string& dir) {
  const std::string path = library_choices_path(dir);
  std::string reason;
  if (path_exists(path) && !device.adopt_library_choices(read_file(path), reason)) return reason;
  return {};
}

void keep_library_choices(const runtime::Device& device, const std::string& dir) {
  const std::string path = library_choices_path(dir);
  const std::string choices = device.library_choices();
  if (choices.empty() || (path_exists(path) && read_file(path) == choices)) return;
  write_file_atomic(path, choices);
}

}  // namespace ida::train
