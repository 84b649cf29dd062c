// ida-train: reads the command line, runs one command, turns failures into one line and an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "common.h"
#include "config/suggest.h"
#include "evidence/build_id.h"

namespace ida::app {
namespace {

// "ida-train verify golden"
std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name() : full_name(*command.get_parent()) + " " + command.get_name();
}

std::vector<std::string> command_names(const CLI::App& group) {
  std::vector<std::string> names;
  for (const CLI::App* command : group.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return config::did_you_mean(config::nearest(word, views));
}

[[noreturn]] void refuse_word(const CLI::App& command, const std::string& word) {
  const std::string name = full_name(command);
  if (word.starts_with("-")) {
    const std::string option = word.substr(0, word.find('='));
    fail_usage("unknown option {}{} (see `{} --help`)", option, suggestion(option, option_names(command)), name);
  }
  const std::vector<std::string> names = command_names(command);
  if (names.empty()) fail_usage("unexpected argument '{}' (see `{} --help`)", word, name);
  fail_usage("unknown command '{}'{}; {} has {}", word, suggestion(word, names), name, fmt::join(names, ", "));
}

const CLI::App& innermost(const CLI::App& root) {
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Words that no command understood, before anything that is missing.
void refuse_unknown(const CLI::App& root) {
  for (const CLI::App* command = &root;; command = command->get_subcommands().front()) {
    const std::vector<std::string> words = command->remaining(false);
    if (!words.empty()) refuse_word(*command, words.front());
    if (command->get_subcommands().empty()) return;
  }
}

// The exit code of a call that only asked for help or the version.
std::optional<int> parse(CLI::App& root, int argc, char** argv) {
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return root.exit(asked);
  } catch (const CLI::ParseError& error) {
    refuse_unknown(root);
    fail_usage("{} (see `{} --help`)", error.what(), full_name(innermost(root)));
  }
  refuse_unknown(root);
  const CLI::App& command = innermost(root);
  const std::vector<std::string> names = command_names(command);
  if (!names.empty()) fail_usage("no command given; {} has {}", full_name(command), fmt::join(names, ", "));
  return std::nullopt;
}

std::string version_text() {
  const evidence::BuildId& build = evidence::build_id();
  return fmt::format("ida-train {} (commit {}, {}, {})", build.version, build.commit, build.compiler, build.type);
}

int run(int argc, char** argv) {
  Program program{.argv = {argv, argv + argc}};
  CLI::App root("Trains decoder language models and proves which experiment ran.", "ida-train");
  root.option_defaults()->always_capture_default();
  root.set_version_flag("--version", version_text());
  root.require_subcommand(0, 1);
  root.footer(
      "Exit codes: 0 done, 1 run-time failure, 2 usage or config, 3 a gate refused, 4 corrupt data or checkpoint,\n"
      "75 stopped by a signal, saved, resumable. Results go to stdout, progress to stderr.");
  for (const auto add : {add_train, add_plan, add_data, add_tokenizer, add_import, add_export, add_verify, add_probe,
                         add_eval, add_generate, add_report, add_doctor, add_bench})
    add(root, program);
  if (const auto code = parse(root, argc, argv)) return *code;
  return static_cast<int>(program.body());
}

int fail_with(ExitCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  // Not fmt::print: it throws where the log lies on the full disk that the message is about.
  std::fputs(fmt::format("ida-train: error: {}\n", message).c_str(), stderr);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace ida::app

int main(int argc, char** argv) {
  try {
    return ida::app::run(argc, argv);
  } catch (const ida::Error& error) {
    return ida::app::fail_with(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return ida::app::fail_with(ida::ExitCode::kRuntime, "out of memory: use a smaller model, batch or window");
  } catch (const std::exception& error) {
    return ida::app::fail_with(ida::ExitCode::kRuntime, error.what());
  }
}
