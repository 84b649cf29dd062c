// ida-train plan.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
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
constexpr std::array<std::string_view, 12> kCudaCards = {
    "a100", "h100", "h200", "b200", "b300", "gb200", "rtx4090", "rtx5070ti", "rtx5080", "rtx5090", "rtxpro6000", "cuda"};

// The device to plan for; "" and "cpu" are this machine's processor.
runtime::DeviceInfo assumed_device(const std::string& name) {
  runtime::DeviceInfo device = cpu::detect_cpu();
  if (name.empty() || name == "cpu") return device;
  std::vector<std::string_view> names = {"cpu"};
  for (const CpuVariant& variant : kCpuVariants) {
    names.push_back(variant.name);
    if (variant.name != name) continue;
    device.cpu = variant.isa;
    device.name = fmt::format("{} assumed ({} cores and {:.1f} GiB of this machine)", name, device.num_cores,
                              static_cast<double>(device.memory_bytes) / (1 << 30));
    return device;
  }
  if (std::find(kCudaCards.begin(), kCudaCards.end(), name) != kCudaCards.end())
    fail_gate(
        "[plan] --assume {}: a plan needs the CUDA backend's implementation lists, which this build does not contain; "
        "available: {}",
        name, fmt::join(names, ", "));
  std::vector<std::string_view> all = names;
  all.insert(all.end(), kCudaCards.begin(), kCudaCards.end());
  fail_usage("[plan] --assume {}: unknown device{}; known: {}", name, config::did_you_mean(config::nearest(name, all)),
             fmt::join(names, ", "));
}

ExitCode run(const Options& options, const Program& program) {
  const config::RunConfig config = config::load_run_config(options.config, options.overrides);
  check_backend(backend_of(config));
  if (options.world > 1) fail_gate("[plan] --world {}: this build runs on one device only; use --world 1", options.world);
  const runtime::DeviceInfo device = assumed_device(options.assume);
  set_num_threads(static_cast<int>(program.threads > 0 ? program.threads : config.device.threads));
  const train::PlanReport report = train::plan_report(config, device, cpu::make_cpu_backend(device));
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
                      "device to plan for: cpu, cpu-baseline, cpu-avx2, cpu-avx512, cpu-amx; "
                      "default: this machine");
  command->add_option("--world", options->world, "devices")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  add_out(*command, options->out);
}

}  // namespace ida::app
