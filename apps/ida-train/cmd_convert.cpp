// ida-train import, export.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "train/convert.h"

namespace ida::app {
namespace {

struct Options {
  std::string source;
  std::string target;
  std::string format = "hf";
  std::string out;
};

void show(const train::ConvertReport& report, const Options& options) {
  fmt::print("{} -> {}: {} tensors, {} parameters, bytes unchanged{}\n", report.source, options.target, report.num_tensors,
             report.num_parameters, report.has_tokenizer ? ", tokenizer" : "");
  if (!report.has_tokenizer) fmt::print(stderr, "{}: has no tokenizer; eval and generate will need one\n", report.source);
  write_figures(options.out, {{"source", report.source},
                              {"target", options.target},
                              {"tensors", report.num_tensors},
                              {"parameters", report.num_parameters},
                              {"tokenizer", report.has_tokenizer}});
}

ExitCode run_import(const Options& options) {
  require_folder(options.source, "a Hugging Face model folder");
  show(train::import_model(options.source, options.target), options);
  return ExitCode::kDone;
}

ExitCode run_export(const Options& options) {
  show(train::export_model(model_folder(options.source), options.target, options.format), options);
  return ExitCode::kDone;
}

}  // namespace

void add_import(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "import", "check a Hugging Face model folder and copy it", program,
                                  [options] { return run_import(*options); });
  command->add_option("HF_DIR", options->source, "folder with config.json and safetensors")->required();
  command->add_option("OUT", options->target, "folder to write")->required();
  add_out(*command, options->out);
}

void add_export(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "export", "write the model of a run in another format", program,
                                  [options] { return run_export(*options); });
  command->add_option("RUN", options->source, "run folder (its newest complete checkpoint), checkpoint or model folder")
      ->required();
  command->add_option("OUT", options->target, "folder to write")->required();
  command->add_option("--format", options->format, "hf: config.json, model.safetensors, tokenizer");
  add_out(*command, options->out);
}

}  // namespace ida::app
