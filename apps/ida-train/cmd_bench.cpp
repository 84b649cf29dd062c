// ida-train bench tokenizer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

#include "base/file.h"
#include "base/sha256.h"
#include "common.h"
#include "text/tokenizer.h"

namespace ida::app {
namespace {

struct Options {
  std::string tokenizer;
  std::vector<std::string> texts;
  std::int64_t repeats = 3;
  std::string out;
};

// Processor time of the calling thread: what else the machine does hardly counts.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The shortest of `repeats` encodings.
nlohmann::json measure(const text::Tokenizer& tokenizer, const std::string& path, std::int64_t repeats) {
  const std::string text = read_file(path);
  std::vector<std::int32_t> ids;
  double seconds = 0;
  for (std::int64_t i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    ids = tokenizer.encode(text);
    const double took = thread_seconds() - start;
    seconds = i == 0 ? took : std::min(seconds, took);
  }
  return {{"file", path},
          {"text_bytes", text.size()},
          {"tokens", ids.size()},
          {"encode_s", seconds},
          {"text_bytes_per_s", static_cast<double>(text.size()) / seconds},
          {"ids_sha256", sha256_hex(std::as_bytes(std::span(ids)))},
          {"decodes_to_text", tokenizer.decode(ids) == text}};
}

ExitCode run(const Options& options) {
  require_file(options.tokenizer, "a tokenizer.json or a rank file");
  for (const std::string& path : options.texts) require_file(path, "a text file");
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.tokenizer);
  nlohmann::json rows = nlohmann::json::array();
  fmt::print("{:>12} {:>10} {:>10} {:>8}  file\n", "bytes", "tokens", "seconds", "MiB/s");
  for (const std::string& path : options.texts) {
    rows.push_back(measure(tokenizer, path, options.repeats));
    const nlohmann::json& row = rows.back();
    fmt::print("{:>12} {:>10} {:>10.4f} {:>8.2f}  {}\n", row["text_bytes"].get<std::size_t>(),
               row["tokens"].get<std::size_t>(), row["encode_s"].get<double>(),
               row["text_bytes_per_s"].get<double>() / (1 << 20), path);
  }
  write_figures(options.out, {{"tokenizer", options.tokenizer},
                              {"content_hash", tokenizer.content_hash()},
                              {"repeats", options.repeats},
                              {"texts", std::move(rows)}});
  return ExitCode::kDone;
}

}  // namespace

void add_bench(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "bench", "measure speed");
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(*group, "tokenizer", "bytes of text encoded a second, on one thread", program,
                                  [options] { return run(*options); });
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json or a rank file")->required();
  command->add_option("--text", options->texts, "text files")->required()->default_str("");
  command->add_option("--repeats", options->repeats, "encodings of each text; the shortest counts")
      ->check(CLI::Range(1, 1000));
  add_out(*command, options->out);
}

}  // namespace ida::app
