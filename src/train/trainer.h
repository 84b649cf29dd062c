// The conductor: starts or resumes a run and takes it to its last step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"
#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::train {

struct TrainOutcome {
  bool stopped = false;       // by a signal; saved and resumable
  bool already_done = false;  // nothing was left to do
  std::int64_t step = 0;
  std::string run_dir;
};

// What to do when the training data is no longer what a checkpoint was trained on: refuse (kUsage), or go on with the new
// data from its beginning and put that on record.
enum class OnChangedData { kRefuse, kRestart };

// Runs `config` on `device`. Idempotent: continues after the newest complete checkpoint of the run's folder, bitwise as
// if it had never stopped; returns at once when the last step is there. Errors: kUsage for a configuration that
// contradicts the folder's or the data, kGate when a gate stops the run, kCorrupt for damaged state.
TrainOutcome train(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                   const std::vector<std::string>& argv, OnChangedData on_changed_data = OnChangedData::kRefuse);

}  // namespace ida::train
