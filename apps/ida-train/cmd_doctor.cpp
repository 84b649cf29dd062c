// ida-train doctor: what this machine, this build and the libraries found allow.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/onednn.h"
#include "backend/cuda/cuda_backend.h"
#include "base/parallel.h"
#include "base/units.h"
#include "common.h"
#include "evidence/build_id.h"
#include "evidence/environment.h"
#include "precision/recipe.h"
#include "train/recorder.h"

namespace ida::app {
namespace {

std::string isa_text(const runtime::CpuIsa& isa) {
  std::string text;
  const auto add = [&](bool has, const char* name) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, has ? "yes" : "no");
  };
  add(isa.avx2, "avx2");
  add(isa.avx512, "avx512");
  add(isa.avx512_bf16, "avx512_bf16");
  add(isa.amx_bf16, "amx_bf16");
  return text;
}

std::string onednn_text(const runtime::DeviceInfo& device) {
  if (!device.onednn_version.empty()) return device.onednn_version;
  return fmt::format("not found ({}): matrix products take the own blocked form{}; install libdnnl3 or libdnnl2",
                     cpu::onednn_search_report(),
                     device.cpu.amx_bf16 ? ", and bf16 products lose the matrix unit of this processor" : "");
}

std::string gpu_text(const cuda::CudaSearch& gpu) {
  if (!gpu.device) return fmt::format("none: {}", gpu.reason);
  return fmt::format("{}, sm_{}, {} multiprocessors, {:.1f} GiB", gpu.device->name, gpu.device->sm, gpu.device->num_cores,
                     gib(gpu.device->memory_bytes));
}

nlohmann::json facts_json(const evidence::PlanFacts& fact) {
  nlohmann::json refused = nlohmann::json::array();
  for (const evidence::RefusedEngine& r : fact.refused)
    refused.push_back({{"engine", r.engine}, {"kind", r.kind}, {"reason", r.reason}});
  return {{"pass", fact.pass}, {"engine", fact.engine}, {"desc", fact.desc}, {"refused", std::move(refused)}};
}

// Engines of one square linear map of middling size, pass by pass.
nlohmann::json show_engines(const std::string& recipe, const Machine& machine) {
  const ops::GemmSite site{
      .name = "doctor", .module = ops::Module::kO, .layer = 0, .rows = 1024, .in_features = 1024, .out_features = 1024};
  const ops::SitePlan plan =
      precision::build_site_plan(precision::recipe_by_name(recipe), {site}, machine.backend.gemm, machine.device.info());
  nlohmann::json passes = nlohmann::json::array();
  for (const evidence::PlanFacts& fact : train::plan_facts(plan)) {
    fmt::print("  {:<6} {:<6} {}\n", recipe, fact.pass, fact.engine);
    for (const evidence::RefusedEngine& r : fact.refused) fmt::print("    not {} ({}): {}\n", r.engine, r.kind, r.reason);
    passes.push_back(facts_json(fact));
  }
  return passes;
}

ExitCode run(const std::string& out, const Program& program) {
  const Machine machine = open_machine("auto", program.threads);
  const runtime::DeviceInfo processor = cpu::detect_cpu();
  const cuda::CudaSearch gpu = cuda::detect_cuda();
  const evidence::BuildId& build = evidence::build_id();
  const evidence::Environment environment = evidence::collect_environment();
  fmt::print("{:<10} {} (commit {}, {}, {})\n", "program", build.version, build.commit, build.compiler, build.type);
  fmt::print("{:<10} {}, {}\n", "system", environment.os, environment.kernel);
  fmt::print("{:<10} {}\n", "device", machine.device.info().name);
  fmt::print("{:<10} {}, {} cores usable, {} threads, {:.1f} GiB usable\n", "processor", processor.name,
             processor.num_cores, num_threads(), gib(processor.memory_bytes));
  fmt::print("{:<10} {}; kernels compiled for {}\n", "isa", isa_text(processor.cpu),
             cpu::isa_level_name(cpu::isa_level(processor.cpu)));
  fmt::print("{:<10} {}\n", "oneDNN", onednn_text(processor));
  fmt::print("{:<10} {}\n", "GPU", gpu_text(gpu));
  for (const cuda::LibraryReport& library : cuda::library_reports())
    fmt::print("{:<10} {}; without it: {}\n", library.name, library.found, library.without_it);
  fmt::print("matrix products of 1024 x 1024 x 1024 on {}\n", machine.device.info().name);
  const nlohmann::json fp32 = show_engines("fp32", machine);
  const nlohmann::json bf16 = show_engines("bf16", machine);
  write_figures(out, {{"version", build.version},
                      {"commit", build.commit},
                      {"device", machine.device.info().name},
                      {"cores", processor.num_cores},
                      {"threads", num_threads()},
                      {"memory_bytes", processor.memory_bytes},
                      {"isa",
                       {{"avx2", processor.cpu.avx2},
                        {"avx512", processor.cpu.avx512},
                        {"avx512_bf16", processor.cpu.avx512_bf16},
                        {"amx_bf16", processor.cpu.amx_bf16}}},
                      {"onednn", processor.onednn_version},
                      {"cuda", gpu_text(gpu)},
                      {"engines", {{"fp32", fp32}, {"bf16", bf16}}}});
  return ExitCode::kDone;
}

}  // namespace

void add_doctor(CLI::App& root, Program& program) {
  auto out = std::make_shared<std::string>();
  CLI::App* command = add_command(root, "doctor", "device, libraries, and what each engine would do here and why", program,
                                  [out, &program] { return run(*out, program); });
  add_out(*command, *out);
}

}  // namespace ida::app
