// ida-train plan.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_backend.h"
#include "base/parallel.h"
#include "base/units.h"
#include "common.h"
#include "config/load.h"
#include "config/suggest.h"
#include "train/plan_report.h"

namespace ida::app {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  std::string assume;
  std::int64_t world = 1;
  std::string out;
};

struct CpuVariant {
  std::string_view name;
  runtime::CpuIsa isa;
};
constexpr std::array kCpuVariants = {
    CpuVariant{"cpu-baseline", {}},
    CpuVariant{"cpu-avx2", {.avx2 = true}},
    CpuVariant{"cpu-avx512", {.avx2 = true, .avx512 = true}},
    CpuVariant{"cpu-amx", {.avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true}},
};
constexpr std::array<std::string_view, 5> kCudaCards = {"h100", "h200", "b200", "rtx5090", "rtx5070ti"};

// The processor of this machine, or an assumed one; nothing for a name that is not a processor's.
std::optional<runtime::DeviceInfo> assumed_cpu(const std::string& name) {
  runtime::DeviceInfo device = cpu::detect_cpu();
  if (name == "cpu") return device;
  for (const CpuVariant& variant : kCpuVariants) {
    if (variant.name != name) continue;
    device.cpu = variant.isa;
    device.name = fmt::format("{} assumed ({} cores and {:.1f} GiB of this machine)", name, device.num_cores,
                              gib(device.memory_bytes));
    return device;
  }
  return std::nullopt;
}

runtime::DeviceInfo assumed_device(const std::string& name) {
  if (const auto device = assumed_cpu(name)) return *device;
  if (auto device = cuda::known_device(name)) {
    device->name = fmt::format("{} assumed", device->name);
    return *device;
  }
  std::vector<std::string_view> names = {"cpu"};
  for (const CpuVariant& variant : kCpuVariants) names.push_back(variant.name);
  if (std::find(kCudaCards.begin(), kCudaCards.end(), name) != kCudaCards.end())
    fail_gate("[plan] --assume {}: {}; available: {}", name, cuda::detect_cuda().reason, fmt::join(names, ", "));
  names.insert(names.end(), kCudaCards.begin(), kCudaCards.end());
  fail_usage("[plan] --assume {}: unknown device{}; known: {}", name, config::did_you_mean(config::nearest(name, names)),
             fmt::join(names, ", "));
}

// The device that the run would take here.
runtime::DeviceInfo device_here(const std::string& backend) {
  const auto gpu = find_gpu(backend);
  return gpu ? *gpu : cpu::detect_cpu();
}

ExitCode run(const Options& options, const Program& program) {
  const config::RunConfig config = config::load_run_config(options.config, options.overrides);
  if (options.world > 1) fail_gate("[plan] --world {}: this build runs on one device only; use --world 1", options.world);
  const runtime::DeviceInfo device =
      options.assume.empty() ? device_here(backend_of(config)) : assumed_device(options.assume);
  set_num_threads(static_cast<int>(program.threads > 0 ? program.threads : config.device.threads));
  const train::PlanReport report = train::plan_report(
      config, device,
      device.backend == runtime::BackendKind::kCuda ? cuda::make_cuda_backend(device) : cpu::make_cpu_backend(device));
  fmt::print("{}", train::render_plan(report));
  write_figures(options.out, nlohmann::json::parse(train::to_json(report)));
  return ExitCode::kDone;
}

}  // namespace

void add_plan(CLI::App& root, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(root, "plan", "what a run would do: sizes, memory, time, engines; writes nothing",
                                  program, [options, &program] { return run(*options, program); });
  command->add_option("CONFIG", options->config, "run configuration, TOML")->required();
  add_repeated(*command, "--set", options->overrides, "a.b=value: overrides a setting of the file; may be repeated");
  command->add_option("--assume", options->assume,
                      "device to plan for: cpu, cpu-baseline, cpu-avx2, cpu-avx512, cpu-amx, h100, "
                      "h200, b200, rtx5090, rtx5070ti; "
                      "default: this machine");
  command->add_option("--world", options->world, "devices")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  add_out(*command, options->out);
}

}  // namespace ida::app
