#include "common.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_backend.h"
#include "base/file.h"
#include "base/parallel.h"
#include "train/model_folder.h"

namespace ida::app {

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help, Program& program,
                      std::function<ExitCode()> body) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->add_option("--threads", program.threads, "host threads; 0: all cores the process may use")
      ->take_last()
      ->check(CLI::Range(0, 4096));
  command->final_callback([&program, body = std::move(body)] { program.body = body; });
  return command;
}

CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help) {
  CLI::App* group = parent.add_subcommand(name, help);
  group->require_subcommand(0, 1);
  return group;
}

void add_out(CLI::App& command, std::string& path) {
  command.add_option("--out", path, "write the figures as JSON to this file");
}

void add_dtype(CLI::App& command, std::string& dtype) {
  command.add_option("--dtype", dtype, "compute type, f32 or bf16; default: the checkpoint's own")
      ->check(CLI::IsMember({"f32", "bf16"}));
}

std::optional<DType> dtype_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "bf16" ? DType::kBF16 : DType::kF32;
}

CLI::Option* add_repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                          const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&values](const std::string& value) { values.push_back(value); }, help)
      ->trigger_on_parse()
      ->take_last()
      ->type_name("TEXT");
}

std::string backend_of(const config::RunConfig& config) {
  switch (config.device.backend) {
    case config::Backend::kAuto: return "auto";
    case config::Backend::kCpu: return "cpu";
    case config::Backend::kCuda: return "cuda";
  }
  return "";
}

std::optional<runtime::DeviceInfo> find_gpu(const std::string& backend) {
  if (backend == "cpu") return std::nullopt;
  const cuda::CudaSearch search = cuda::detect_cuda();
  if (!search.device && backend == "cuda") fail_gate("[device] backend = \"cuda\": {}", search.reason);
  return search.device;
}

Machine open_machine(const std::string& backend, std::int64_t threads) {
  set_num_threads(static_cast<int>(threads));
  const auto gpu = find_gpu(backend);
  std::unique_ptr<runtime::Device> device = gpu ? cuda::open_cuda(*gpu) : std::make_unique<cpu::CpuDevice>();
  runtime::Device& opened = *device;
  return {std::move(device), opened, gpu ? cuda::make_cuda_backend(opened.info()) : cpu::make_cpu_backend(opened.info())};
}

void write_figures(const std::string& path, const nlohmann::json& figures) {
  if (path.empty()) return;
  const std::string text = figures.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_file_atomic(path, std::string_view(text));
}

nlohmann::json engines_json(const ops::EngineCounters& counters) {
  return {{"engines", counters.calls_by_engine()}, {"fallbacks", counters.fallbacks_by_reason()}};
}

void require_file(const std::string& path, const char* what) {
  if (!is_regular_file(path))
    fail_usage("{}: {}; expected {}", path, path_exists(path) ? "is not a file" : "no such file", what);
}

void require_folder(const std::string& path, const char* what) {
  if (!is_directory(path))
    fail_usage("{}: {}; expected {}", path, path_exists(path) ? "is not a folder" : "no such folder", what);
}

std::string model_folder(const std::string& path) {
  require_folder(path, "a run folder, a checkpoint or a model folder with config.json");
  std::vector<std::string> passed_over;
  std::string folder;
  try {
    folder = train::resolve_model_folder(path, passed_over);
  } catch (const Error&) {
    for (const std::string& line : passed_over) fmt::print(stderr, "{}\n", line);
    throw;
  }
  for (const std::string& line : passed_over) fmt::print(stderr, "{}\n", line);
  if (folder != path) fmt::print(stderr, "model: {}\n", folder);
  return folder;
}

}  // namespace ida::app
