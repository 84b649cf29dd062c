// What the commands share: their registration, the machine they compute on, figures as JSON.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "config/run_config.h"
#include "ops/backend.h"
#include "ops/site.h"
#include "runtime/device.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ida::app {

struct Program {
  std::vector<std::string> argv;
  std::int64_t threads = 0;             // --threads; 0: all cores the process may use
  std::function<ExitCode()> body = {};  // of the command that was given
};

// One per cmd_*.cpp.
void add_train(CLI::App& root, Program& program);
void add_verify(CLI::App& root, Program& program);
void add_eval(CLI::App& root, Program& program);
void add_generate(CLI::App& root, Program& program);
void add_plan(CLI::App& root, Program& program);
void add_probe(CLI::App& root, Program& program);
void add_data(CLI::App& root, Program& program);
void add_tokenizer(CLI::App& root, Program& program);
void add_import(CLI::App& root, Program& program);
void add_export(CLI::App& root, Program& program);
void add_report(CLI::App& root, Program& program);
void add_doctor(CLI::App& root, Program& program);
void add_bench(CLI::App& root, Program& program);
void add_bench_ops(CLI::App& group, Program& program);
void add_bench_step(CLI::App& group, Program& program);
void add_bench_tokenizer(CLI::App& group, Program& program);

// A command without subcommands; `body` runs after everything was parsed.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help, Program& program,
                      std::function<ExitCode()> body);
// A command that only groups others.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help);

void add_out(CLI::App& command, std::string& path);      // --out FILE
void add_dtype(CLI::App& command, std::string& dtype);   // --dtype f32|bf16
std::optional<DType> dtype_of(const std::string& name);  // "" is nothing
// An option that may be given several times, one value each; any text is taken as it is.
CLI::Option* add_repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                          const std::string& help);

std::string backend_of(const config::RunConfig& config);

// The GPU that a command asked for "auto" or "cuda" takes; nothing for "cpu", and for "auto" where there is none. Errors:
// kGate for "cuda" on a machine, or in a build, without.
std::optional<runtime::DeviceInfo> find_gpu(const std::string& backend);

// The device a command computes on, with its implementation lists.
struct Machine {
  std::unique_ptr<runtime::Device> device_owner;
  runtime::Device& device;
  ops::Backend backend;
};
// `backend` "auto": a GPU where there is one, else the processor. `threads` 0: all cores. Errors of find_gpu.
Machine open_machine(const std::string& backend, std::int64_t threads);

// Writes the figures of a command; an empty path is nothing. Text that is not UTF-8 is repaired.
void write_figures(const std::string& path, const nlohmann::json& figures);
// Writes report.html of a run, prints its figures, and writes them to `out`.
void show_run(const std::string& run_dir, const std::string& out);
nlohmann::json engines_json(const ops::EngineCounters& counters);

// kUsage where `path` is not a regular file, or not a folder.
void require_file(const std::string& path, const char* what);
void require_folder(const std::string& path, const char* what);

// The model folder behind --model: a folder with config.json, or a run folder (its newest complete checkpoint; folders
// passed over are reported on stderr).
std::string model_folder(const std::string& path);

}  // namespace ida::app
