#include "reliability/tiny_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "train/trainer.h"

namespace ida::reliability {
namespace {

namespace fs = std::filesystem;

// Paths are relative to the folder of the run, so that a copy of it is the same run.
std::string config_text() {
  return fmt::format(R"(
[run]
name = "run"
dir = "runs"
[model]
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1
[tokenizer]
vocab_size = 264
[data]
train = ["corpus/train"]
valid = ["corpus/valid.txt"]
seq_len = 16
[optim]
lr = 5e-3
[train]
steps = {0}
global_batch_tokens = 64
micro_batch_sequences = 2
eval_every = 2
save_every = {1}
keep_last = 1
[precision]
recipe = "fp32"
)",
                     kSteps, kSaveEvery);
}

int run_here(const Variant& variant, const FaultPlan& plan, const std::string& log) {
  const std::string text = config_text();
  const config::RunConfig config = config::parse_run_config(text, "test", variant.overrides);
  set_num_threads(1);
  cpu::CpuDevice device;
  const ops::Backend backend = cpu::make_cpu_backend(device.info());
  install_faults(plan, log);
  try {
    train::train(config, device, backend, {"ida-train", "train"});
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "ida-train: error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace

Scratch::Scratch() {
  const fs::path root = ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
  path_ = (root / "ida-reliability-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) fail_runtime("mkdtemp failed");
}

Scratch::~Scratch() { fs::remove_all(path_); }

const std::vector<Variant>& variants() {
  // A limit that leaves no room for a second copy of the state makes saving synchronous.
  static const std::vector<Variant> all = {
      {"fp32", {"run.seed=1", "device.memory_limit=800KiB"}},
      {"bf16_moments", {"run.seed=2", "precision.recipe=bf16", "precision.state=bf16", "device.memory_limit=800KiB"}},
      {"lion_async", {"run.seed=3", "optim.name=lion", "train.micro_batch_sequences=1"}}};
  return all;
}

void write_corpus(const std::string& folder) {
  static constexpr const char* kWords[] = {"river", "stone", "cloud", "walks", "sings",
                                           "under", "over",  "the",   "quiet", "."};
  std::uint32_t state = 1;
  const auto text = [&state] {
    std::string words;
    for (int i = 0; i < 60; ++i) {
      state = state * 1664525u + 1013904223u;
      words += std::string(kWords[(state >> 16) % 10]) + ' ';
    }
    return words;
  };
  make_directories(folder + "/train");
  for (int i = 0; i < 3; ++i) write_file_atomic(fmt::format("{}/train/{}.txt", folder, i), text());
  write_file_atomic(folder + "/valid.txt", text());
}

int start_run(const std::string& folder, const Variant& variant, const FaultPlan& plan, const std::string& log) {
  const pid_t child = ::fork();
  if (child < 0) fail_runtime("fork failed");
  if (child == 0) {
    const int fd = ::open((folder + "/stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ::dup2(fd, 2) < 0 || ::chdir(folder.c_str()) != 0) ::_exit(99);
    ::_exit(run_here(variant, plan, log));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string end_of_run(const std::string& folder) {
  const std::string last = fmt::format("{}/runs/run/checkpoints/step-{}/", folder, kSteps);
  std::string text;
  for (const char* name : {"model.safetensors", "optim.safetensors"})
    text += fmt::format("{} {}\n", name, path_exists(last + name) ? sha256_hex(read_file(last + name)) : "missing");
  if (!path_exists(last + "state.json")) return text;
  nlohmann::json state = nlohmann::json::parse(read_file(last + "state.json"));
  state.erase("elapsed_s");
  text += state.dump() + "\n";
  std::istringstream lines(read_file(folder + "/runs/run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json row = nlohmann::json::parse(line);
    row.erase("elapsed_s");
    row.erase("tokens_per_s");
    text += row.dump() + "\n";
  }
  return text;
}

}  // namespace ida::reliability
