// ida-train data build|inspect.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/parallel.h"
#include "common.h"
#include "data/build_shard.h"
#include "text/tokenizer.h"
#include "train/inspect_data.h"

namespace ida::app {
namespace {

struct BuildOptions {
  std::vector<std::string> sources;
  std::string tokenizer;
  std::string shard;
  std::string report;
};

struct InspectOptions {
  std::string path;
  std::vector<std::string> overrides;
  std::string tokenizer;
  data::InspectOptions show;
  std::string out;
};

ExitCode run_build(const BuildOptions& options, const Program& program) {
  set_num_threads(static_cast<int>(program.threads));
  if (!path_exists(options.tokenizer))
    fail_usage("{}: no such file; expected a tokenizer.json or a folder with one", options.tokenizer);
  if (!options.shard.ends_with(".shard")) fail_usage("--out {}: expected a name that ends in .shard", options.shard);
  const std::vector<data::Source> sources = data::find_sources(options.sources);
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.tokenizer);
  const data::TokenizerEncoder<text::Tokenizer> encoder(tokenizer);
  const data::BuildReport report = data::build_shard(sources, encoder, options.shard);
  fmt::print("{}: {}\n", options.shard, report.to_string());
  write_figures(options.report, {{"shard", options.shard},
                                 {"documents", report.num_documents},
                                 {"tokens", report.num_tokens},
                                 {"text_bytes", report.text_bytes},
                                 {"empty", report.num_empty},
                                 {"binary", report.num_binary},
                                 {"left_out", report.num_left_out},
                                 {"tokenizer_hash", tokenizer.content_hash()}});
  return ExitCode::kDone;
}

train::DataReport inspect(const InspectOptions& options) {
  if (options.path.ends_with(".toml"))
    return train::inspect_run_data(config::load_run_config(options.path, options.overrides), options.show);
  require_file(options.path, "a token shard or a run configuration (.toml)");
  if (options.tokenizer.empty()) fail_usage("[data inspect] a shard needs --tokenizer, the one it was made with");
  if (!path_exists(options.tokenizer))
    fail_usage("{}: no such file; expected a tokenizer.json or a folder with one", options.tokenizer);
  return train::inspect_shard(options.path, options.tokenizer, options.show);
}

ExitCode run_inspect(const InspectOptions& options, const Program& program) {
  set_num_threads(static_cast<int>(program.threads));
  const train::DataReport report = inspect(options);
  fmt::print("{}", report.text);
  nlohmann::json figures = {{"documents", report.documents},
                            {"tokens", report.tokens},
                            {"vocab_size", report.vocab_size},
                            {"sources", report.sources}};
  if (report.rows_per_epoch > 0)
    figures.update({{"rows_per_epoch", report.rows_per_epoch}, {"fill_rate", report.fill_rate}});
  write_figures(options.out, figures);
  return ExitCode::kDone;
}

}  // namespace

void add_data(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "data", "token shards");
  auto build = std::make_shared<BuildOptions>();
  CLI::App* command = add_command(*group, "build", "tokenize text into a shard", program,
                                  [build, &program] { return run_build(*build, program); });
  command->add_option("SOURCES", build->sources, "text files, .jsonl files ({\"text\": ...} a line) or folders")
      ->required()
      ->default_str("");
  command->add_option("--tokenizer", build->tokenizer, "tokenizer.json, a rank file or a folder with one")->required();
  command->add_option("--out", build->shard, "shard to write, FILE.shard")->required();
  command->add_option("--report", build->report, "write the figures as JSON to this file");

  auto show = std::make_shared<InspectOptions>();
  command = add_command(*group, "inspect", "show tokens, documents and masks of a shard or of a run's data", program,
                        [show, &program] { return run_inspect(*show, program); });
  command->add_option("PATH", show->path, "FILE.shard, or a run configuration (.toml)")->required();
  add_repeated(*command, "--set", show->overrides, "a.b=value: overrides a setting of the configuration; may be repeated");
  command->add_option("--tokenizer", show->tokenizer, "of a shard: the tokenizer it was made with");
  command->add_option("--rows", show->show.max_rows, "rows of the configuration, or documents of the shard, to show")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--ids", show->show.ids, "also show token ids");
  add_out(*command, show->out);
}

}  // namespace ida::app
