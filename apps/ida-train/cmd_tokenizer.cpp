// ida-train tokenizer train|encode|decode.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "common.h"
#include "data/document.h"
#include "text/bpe_trainer.h"

namespace ida::app {
namespace {

const std::map<std::string, text::WordPattern> kPatterns = {
    {"gpt2", text::WordPattern::kGpt2}, {"llama3", text::WordPattern::kLlama3}, {"qwen2", text::WordPattern::kQwen2}};

struct TrainOptions {
  text::BpeTrainerOptions trainer;
  std::string pattern = "gpt2";
  std::string folder;
  std::vector<std::string> files;
  std::string report;
};

struct CodeOptions {
  std::string tokenizer;
  bool from_stdin = false;
  bool special = false;
  std::string text;
  std::vector<std::string> ids;
};

std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0;) text.append(buffer, n);
  if (std::ferror(stdin) != 0) fail_runtime("[tokenizer] standard input cannot be read");
  return text;
}

void write_stdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail_runtime("[tokenizer] standard output cannot be written");
}

text::Tokenizer load_tokenizer(const std::string& path) {
  if (!path_exists(path)) fail_usage("{}: no such file; expected tokenizer.json, a rank file or a folder with one", path);
  return text::Tokenizer::load(path);
}

ExitCode run_train(const TrainOptions& options) {
  const std::vector<data::Source> sources = data::find_sources(options.files);
  std::vector<std::string> texts;
  std::size_t num_bytes = 0;
  data::for_each_document(sources, [&](std::string_view text, std::int32_t) {
    texts.emplace_back(text);
    num_bytes += text.size();
  });
  if (texts.empty()) fail_usage("[tokenizer train] the sources hold no document");
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  text::BpeTrainerOptions trainer = options.trainer;
  trainer.pattern = kPatterns.at(options.pattern);
  const text::Tokenizer tokenizer = text::train_byte_level_bpe(views, trainer);
  make_directories(options.folder);
  tokenizer.save(options.folder);
  fmt::print("{}/tokenizer.json: {} tokens from {} documents, {} bytes\n", options.folder, tokenizer.vocab_size(),
             texts.size(), num_bytes);
  if (tokenizer.vocab_size() < trainer.vocab_size)
    fmt::print(stderr, "fewer tokens than the {} asked for: no pair of symbols is left to merge\n", trainer.vocab_size);
  write_figures(options.report, {{"vocab_size", tokenizer.vocab_size()},
                                 {"documents", texts.size()},
                                 {"text_bytes", num_bytes},
                                 {"content_hash", tokenizer.content_hash()},
                                 {"folder", options.folder}});
  return ExitCode::kDone;
}

ExitCode run_encode(const CodeOptions& options, bool has_text) {
  if (options.from_stdin == has_text) fail_usage("[tokenizer encode] give either TEXT or --stdin");
  const text::Tokenizer tokenizer = load_tokenizer(options.tokenizer);
  const std::vector<std::int32_t> ids = tokenizer.encode(options.from_stdin ? read_stdin() : options.text, options.special);
  write_stdout(fmt::format("{}\n", fmt::join(ids, " ")));
  return ExitCode::kDone;
}

std::vector<std::int32_t> parse_ids(std::string_view text, std::int64_t vocab_size) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(kBlanks, begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::int32_t id = -1;
    const auto [rest, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || rest != word.data() + word.size() || id < 0 || id >= vocab_size)
      fail_usage("[tokenizer decode] '{}' is no token id; expected integers from 0 to {}, separated by blanks",
                 word.substr(0, 40), vocab_size - 1);
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

ExitCode run_decode(const CodeOptions& options) {
  if (options.from_stdin == !options.ids.empty()) fail_usage("[tokenizer decode] give either IDS or --stdin");
  const text::Tokenizer tokenizer = load_tokenizer(options.tokenizer);
  const std::string ids = options.from_stdin ? read_stdin() : fmt::format("{}", fmt::join(options.ids, " "));
  write_stdout(tokenizer.decode(parse_ids(ids, tokenizer.vocab_size())));
  return ExitCode::kDone;
}

void add_train_command(CLI::App& group, Program& program) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = add_command(group, "train", "train a byte-level BPE tokenizer on text", program,
                                  [options] { return run_train(*options); });
  command->add_option("FILES", options->files, "text files, .jsonl files or folders")->required()->default_str("");
  text::BpeTrainerOptions& trainer = options->trainer;
  command->add_option("--vocab-size", trainer.vocab_size, "tokens, the 256 bytes and special tokens included")->required();
  command->add_option("--min-frequency", trainer.min_frequency, "pairs seen less often do not merge");
  command
      ->add_option("--special-token", trainer.special_tokens, "a special token, the first ends a document; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--pattern", options->pattern, "how text is cut into words: gpt2, llama3 or qwen2")
      ->check(CLI::IsMember(kPatterns));
  command->add_option("--out", options->folder, "folder for tokenizer.json and tokenizer_config.json")->required();
  command->add_option("--report", options->report, "write the figures as JSON to this file");
}

}  // namespace

void add_tokenizer(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "tokenizer", "train and use tokenizers");
  add_train_command(*group, program);

  auto encode = std::make_shared<CodeOptions>();
  const auto has_text = std::make_shared<CLI::Option*>(nullptr);
  CLI::App* command = add_command(*group, "encode", "text to token ids, separated by blanks", program,
                                  [encode, has_text] { return run_encode(*encode, (*has_text)->count() > 0); });
  command->add_option("--tokenizer", encode->tokenizer, "tokenizer.json, a rank file or a folder with one")->required();
  command->add_flag("--stdin", encode->from_stdin, "all of standard input is one text, byte for byte");
  command->add_flag("--special", encode->special, "add what the post-processor adds (BOS, EOS)");
  *has_text = command->add_option("TEXT", encode->text, "text to encode");

  auto decode = std::make_shared<CodeOptions>();
  command = add_command(*group, "decode", "token ids to text: exactly its bytes, no line end added", program,
                        [decode] { return run_decode(*decode); });
  command->add_option("--tokenizer", decode->tokenizer, "tokenizer.json, a rank file or a folder with one")->required();
  command->add_flag("--stdin", decode->from_stdin, "read the ids from standard input");
  command->add_option("IDS", decode->ids, "token ids")->default_str("");
}

}  // namespace ida::app
