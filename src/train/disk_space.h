// What a run's checkpoints need on disk, known before anything is trained.
#pragma once
#include <cstdint>
#include <string>

#include "config/load.h"
#include "train/engine.h"

namespace ida::train {

// Bytes of one checkpoint of this engine; never less than what it will take, and at most a few MiB more.
std::uint64_t checkpoint_bytes(const EngineSpec& spec);

// The most checkpoints of a run that exist at a time under its retention rule, without the one that is being written.
std::int64_t most_checkpoints(const config::TrainSettings& train, std::int64_t num_steps);

// Refuses (kRuntime) a run whose checkpoints will not fit the file system of `run_dir`, saying need, free and remedy.
// Those that are already there are not counted again.
void check_disk_space(const config::RunConfig& config, const EngineSpec& spec, const std::string& run_dir);

}  // namespace ida::train
