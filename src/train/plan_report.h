// What a run would do, from its configuration alone: sizes, work, memory, time, engines. Nothing is allocated on the
// device and nothing is written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "evidence/record.h"
#include "ops/backend.h"
#include "runtime/device_info.h"

namespace ida::train {

struct PlanMemory {
  std::string name;
  std::int64_t bytes = 0;
  std::string note;
  bool on_host = false;  // beside a device with memory of its own: not part of the total
};

struct PlanReport {
  std::string run_dir;
  std::string recipe;
  std::string device;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;  // positions of all global batches
  std::int64_t seq_len = 0;
  std::int64_t global_batch_sequences = 0;
  std::int64_t micro_batch_sequences = 0;
  double gemm_flop_per_token = 0.0;       // forward and backward, with what recompute repeats
  double attention_flop_per_token = 0.0;  // score and value products of rows that are one document, forward and backward

  std::vector<PlanMemory> memory;  // classes of the planned arena at its peak, then what the process holds beside it
  std::int64_t arena_bytes = 0;
  std::int64_t total_bytes = 0;  // expected peak of the process on the device
  std::int64_t limit_bytes = 0;

  std::optional<double> tokens_per_s;  // of an earlier start of this configuration
  std::string tokens_per_s_source;     // where it is from, or why there is none
  std::optional<double> eta_s;

  std::vector<evidence::PlanFacts> sites;  // matrix products by module and pass
  std::vector<std::string> notes;          // assumptions that the first start replaces by facts
};

// Errors as `train` would give them before its first step: kUsage, kGate, kRuntime where one sequence does not fit.
PlanReport plan_report(const config::RunConfig& config, const runtime::DeviceInfo& device, const ops::Backend& backend);

std::string render_plan(const PlanReport& report);  // for a terminal
std::string to_json(const PlanReport& report);      // one object with the members as keys

}  // namespace ida::train
