// Times training steps of a configuration on made-up rows: no data, no files.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "ops/backend.h"
#include "ops/site.h"
#include "runtime/device.h"

namespace ida::train {

struct StepBenchOptions {
  std::int64_t warmup_steps = 3;
  std::int64_t steps = 10;
  std::int64_t documents_per_row = 1;  // of equal length
};

struct StepBenchResult {
  std::string device;
  std::int64_t parameters = 0;
  std::int64_t seq_len = 0;
  std::int64_t micro_batch_sequences = 0;
  std::int64_t micro_batches = 0;
  std::vector<double> step_ms = {};  // of every timed step, host clock, the device idle at both ends of the whole
  double median_step_ms = 0.0;
  double tokens_per_s = 0.0;      // by the median
  double gemm_tflop_per_s = 0.0;  // products alone, by the median
  // Of starting, in their order: plan and memory, timing the library's matrix products (0 where their choices were on
  // disk), weights, the first step.
  std::map<std::string, double> start_ms = {};
  std::int64_t arena_bytes = 0;
  std::int64_t planned_bytes = 0;   // the arena and what is expected beside it
  std::int64_t device_bytes = 0;    // everything the process holds on the device; 0 where the device cannot tell
  std::vector<double> losses = {};  // every step's, warm-up included
  ops::EngineCounters calls = {};   // products of every step, the recorded one included
  std::map<std::string, std::int64_t> op_calls = {};  // "op/implementation" -> calls
  runtime::KernelTotals kernels = {};                 // of one more step, where the device has records of them
  std::string no_kernels = {};                        // why there are none
  std::map<std::string, std::int64_t> replays = {};   // of recorded work
  std::string library_choices = {};                   // Device::library_choices
};

// `config` needs no data and no run name: model, sizes, optimizer and precision are read.
StepBenchResult bench_step(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                           const StepBenchOptions& options);

}  // namespace ida::train
