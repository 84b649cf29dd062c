// The state of a run between two steps, and its way into and out of checkpoints.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/store.h"
#include "data/batch_stream.h"
#include "train/engine.h"

namespace ida::train {

struct RunState {
  std::int64_t step = 0;     // steps done, skipped ones included: the schedule's clock
  std::int64_t updates = 0;  // updates applied: the optimizer's clock
  std::int64_t tokens = 0;   // target tokens seen
  std::int64_t skipped = 0;
  std::int64_t rollbacks = 0;
  std::uint64_t seed = 0;  // of every random stream; the streams are counter based and hold no other state
  data::BatchCursor cursor;
  std::string data_plan_hash;
  double elapsed_s = 0.0;
  std::deque<double> gate_window;
  ops::EngineCounters counters;  // of earlier starts
  std::map<std::string, std::int64_t> op_calls;
  double gemm_flops = 0.0;
};

std::string write_run_state(const RunState& state);
// `origin` starts error messages (kCorrupt).
RunState parse_run_state(std::string_view json, std::string_view origin);

// Views of the engine's buffers as named tensors. On a device the host cannot see, `staging` receives copies.
checkpoint::CheckpointContents checkpoint_contents(Engine& engine, const RunState& state,
                                                   std::vector<std::vector<std::byte>>& staging);

// Weights, masters and optimizer state of a verified checkpoint into the engine; dtypes must be the engine's.
void load_engine(Engine& engine, const checkpoint::Checkpoint& source);

}  // namespace ida::train
