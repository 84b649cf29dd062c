// ida-train data build|inspect.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/parallel.h"
#include "common.h"
#include "data/build_shard.h"
#include "data/source_manifest.h"
#include "text/tokenizer.h"
#include "train/build_progress.h"
#include "train/inspect_data.h"

namespace ida::app {
namespace {

struct BuildOptions {
  std::vector<std::string> sources;
  std::vector<std::string> trees;
  std::vector<std::string> extensions;
  std::vector<std::string> repositories;
  std::string tokenizer;
  std::string shard;
  std::string mask = "all";
  std::int64_t part_tokens = data::BuildOptions().part_tokens;
  std::string manifest;
  std::string report;
};

struct InspectOptions {
  std::string path;
  std::vector<std::string> overrides;
  std::string tokenizer;
  data::InspectOptions show;
  std::string out;
};

std::vector<data::Source> find_sources(const BuildOptions& options) {
  if (options.trees.empty() && !options.extensions.empty())
    fail_usage("[data build] --ext belongs to --tree; give a --tree");
  std::vector<data::SourceRequest> requests;
  for (const std::string& path : options.sources) requests.push_back({.path = path});
  for (const std::string& path : options.trees) {
    require_folder(path, "a folder of files");
    requests.push_back({.path = path, .extensions = options.extensions});
  }
  for (const std::string& path : options.repositories) {
    require_folder(path, "a git repository");
    requests.push_back({.path = path, .git = true});
  }
  if (requests.empty()) fail_usage("[data build] no source; expected files, folders, --tree DIR or --git REPO");
  return data::find_requested_sources(requests);
}

data::LossMask mask_of(const std::string& name) {
  const auto& names = config::EnumNames<data::LossMask>::names;
  return static_cast<data::LossMask>(std::find(names.begin(), names.end(), name) - names.begin());
}

ExitCode run_build(const BuildOptions& options, const Program& program) {
  set_num_threads(static_cast<int>(program.threads));
  if (!path_exists(options.tokenizer))
    fail_usage("{}: no such file; expected a tokenizer.json or a folder with one", options.tokenizer);
  if (!options.shard.ends_with(".shard")) fail_usage("--out {}: expected a name that ends in .shard", options.shard);
  const std::vector<data::Source> sources = find_sources(options);
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.tokenizer);
  const data::TokenizerEncoder<text::Tokenizer> encoder(tokenizer);
  train::BuildProgressLine progress(options.shard);
  data::BuildOptions build{.mask = mask_of(options.mask), .part_tokens = options.part_tokens};
  build.progress = [&](const data::BuildReport& so_far) { progress.update(so_far); };
  const std::vector<data::FileHash> files = data::hash_files(sources);
  const std::string key = data::build_key_of(sources, files, encoder, build);
  const data::BuildReport report = data::build_shard(sources, encoder, options.shard, key, build);
  const std::string manifest = options.manifest.empty() ? data::manifest_path(options.shard) : options.manifest;
  data::write_source_manifest(manifest, sources, files, key);
  fmt::print("{}: {}\n", options.shard, report.to_string());
  write_figures(options.report, {{"shard", options.shard},
                                 {"documents", report.num_documents},
                                 {"tokens", report.num_tokens},
                                 {"text_bytes", report.text_bytes},
                                 {"empty", report.num_empty},
                                 {"binary", report.num_binary},
                                 {"untrained", report.num_untrained},
                                 {"left_out", report.num_left_out},
                                 {"parts", report.num_parts},
                                 {"parts_reused", report.num_reused},
                                 {"manifest", manifest},
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
                            {"masked_tokens", report.masked_tokens},
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
  command
      ->add_option(
          "SOURCES", build->sources,
          "text files, .jsonl files (text, messages, conversations, prompt and completion, instruction and output, "
          "or input_ids a line) or folders")
      ->default_str("");
  add_repeated(*command, "--tree", build->trees, "folder of which the files with the endings of --ext are taken");
  command->add_option("--ext", build->extensions, "endings of files to take from every --tree, as in py,md; default: all")
      ->delimiter(',')
      ->default_str("");
  add_repeated(*command, "--git", build->repositories,
               "git repository whose history is taken: message and patch of each commit, oldest first, merges left out");
  command->add_option("--tokenizer", build->tokenizer, "tokenizer.json, a rank file or a folder with one")->required();
  command->add_option("--out", build->shard, "shard to write, FILE.shard")->required();
  command
      ->add_option("--mask", build->mask, "tokens whose loss counts: all, the assistant's turns, or the last answer alone")
      ->check(CLI::IsMember({"all", "assistant", "completion"}));
  command->add_option("--part-tokens", build->part_tokens, "tokens after which a part ends; a small corpus is one file")
      ->check(CLI::PositiveNumber);
  command->add_option("--manifest", build->manifest,
                      "list of source files with size and sha256; default: NAME.manifest.json beside the shard");
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
