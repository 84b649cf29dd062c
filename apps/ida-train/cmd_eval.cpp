// ida-train eval ppl.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "common.h"
#include "eval/evaluate_texts.h"

namespace ida::app {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  std::int64_t window = 0;
  std::string dtype;
  std::string out;
};

nlohmann::json result_json(const eval::PerplexityResult& r) {
  return {{"mean_nll", r.mean_nll()},      {"perplexity", r.perplexity()}, {"bits_per_byte", r.bits_per_byte()},
          {"tokens", r.text_tokens},       {"windows", r.windows},         {"scored_tokens", r.scored_tokens},
          {"scored_bytes", r.scored_bytes}};
}

void print_row(const eval::PerplexityResult& r, std::size_t width) {
  fmt::print("{:<{}}  {:>10} {:>8} {:>10} {:>11.6f} {:>12.4f} {:>10.4f}\n", r.name, width, r.text_tokens, r.windows,
             r.scored_tokens, r.mean_nll(), r.perplexity(), r.bits_per_byte());
}

ExitCode run(const Options& options, const Program& program) {
  std::vector<eval::NamedText> texts;
  for (const std::string& path : options.texts) {
    require_file(path, "a text file");
    texts.push_back({.name = path, .text = read_file(path)});
  }
  const std::string folder = model_folder(options.model);
  Machine machine = open_machine("auto", program.threads);
  const eval::TextsResult result = eval::evaluate_texts(folder, machine.device, machine.backend, texts,
                                                        {.window = options.window, .dtype = dtype_of(options.dtype)});
  if (!result.note.empty()) fmt::print(stderr, "{}\n", result.note);
  for (const std::string& name : result.skipped)
    fmt::print(stderr, "{}: fewer than one window of {} tokens, not scored\n", name, result.shape.window);
  std::size_t width = 5;
  for (const eval::PerplexityResult& file : result.files) width = std::max(width, file.name.size());
  fmt::print("{:<{}}  {:>10} {:>8} {:>10} {:>11} {:>12} {:>10}\n", "file", width, "tokens", "windows", "scored",
             "nats/token", "perplexity", "bits/byte");
  nlohmann::json files = nlohmann::json::array();
  for (const eval::PerplexityResult& file : result.files) {
    print_row(file, width);
    nlohmann::json row = result_json(file);
    row["file"] = file.name;
    files.push_back(std::move(row));
  }
  print_row(result.total, width);
  nlohmann::json figures = result_json(result.total);
  figures.update(engines_json(result.counters));
  figures.update({{"model", folder},
                  {"window", result.shape.window},
                  {"bos", result.shape.bos},
                  {"dtype", std::string(dtype_name(result.dtype))},
                  {"files", std::move(files)},
                  {"skipped", result.skipped}});
  write_figures(options.out, figures);
  return ExitCode::kDone;
}

}  // namespace

void add_eval(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "eval", "measure a model");
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(*group, "ppl", "perplexity of texts: nats/token, perplexity, bits/byte", program,
                                  [options, &program] { return run(*options, program); });
  command->add_option("--model", options->model, "run folder, checkpoint or Hugging Face model folder")->required();
  command->add_option("--text", options->texts, "text files")->required()->default_str("");
  command
      ->add_option("--window", options->window,
                   "consecutive tokens of text in a window; 0: 1024, or what the model and the longest text allow")
      ->check(CLI::NonNegativeNumber);
  add_dtype(*command, options->dtype);
  add_out(*command, options->out);
}

}  // namespace ida::app
