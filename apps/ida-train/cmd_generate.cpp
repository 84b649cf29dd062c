// ida-train generate.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "eval/generate_text.h"

namespace ida::app {
namespace {

struct Options {
  std::string model;
  eval::TextRequest request;
  std::string dtype;
  std::string out;
};

nlohmann::json samples_json(const std::string& folder, const Options& options, const eval::TextSamples& result) {
  nlohmann::json samples = nlohmann::json::array();
  for (const eval::TextSample& s : result.samples)
    samples.push_back({{"prompt", s.prompt}, {"prompt_ids", s.prompt_ids}, {"ids", s.ids}, {"text", s.text}});
  nlohmann::json figures = engines_json(result.counters);
  const eval::SamplingOptions& sampling = options.request.sampling;
  figures.update({{"model", folder},
                  {"dtype", std::string(dtype_name(result.dtype))},
                  {"temperature", sampling.temperature},
                  {"top_k", sampling.top_k},
                  {"top_p", sampling.top_p},
                  {"seed", sampling.seed},
                  {"samples", std::move(samples)}});
  return figures;
}

ExitCode run(Options& options, const Program& program) {
  options.request.dtype = dtype_of(options.dtype);
  const std::string folder = model_folder(options.model);
  Machine machine = open_machine("auto", program.threads);
  const eval::TextSamples result = eval::generate_text(folder, machine.device, machine.backend, options.request);
  for (const eval::TextSample& sample : result.samples) fmt::print("{}{}\n", sample.prompt, sample.text);
  write_figures(options.out, samples_json(folder, options, result));
  return ExitCode::kDone;
}

}  // namespace

void add_generate(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "generate", "continue prompts; greedy unless --temperature is given", program,
                                  [options, &program] { return run(*options, program); });
  eval::TextRequest& request = options->request;
  command->add_option("--model", options->model, "run folder, checkpoint or Hugging Face model folder")->required();
  add_repeated(*command, "--prompt", request.prompts, "text to continue; may be repeated, \"\" starts from nothing")
      ->required();
  command->add_option("--max-new-tokens", request.max_new_tokens, "tokens; fewer where the model's positions end")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command->add_option("--temperature", request.sampling.temperature, "0: greedy")->check(CLI::Range(0.0, 1e6));
  command->add_option("--top-k", request.sampling.top_k, "tokens to draw from; 0: all")->check(CLI::NonNegativeNumber);
  command->add_option("--top-p", request.sampling.top_p, "smallest set of tokens of this probability")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", request.sampling.seed, "of sampling");
  add_repeated(*command, "--stop", request.stop_texts, "text that ends a sequence and is cut off; may be repeated");
  add_dtype(*command, options->dtype);
  add_out(*command, options->out);
}

}  // namespace ida::app
