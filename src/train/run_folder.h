// A run's folder: its stored configuration and whether a given configuration may continue it.
#pragma once
#include <string>

#include "config/load.h"
#include "runtime/device.h"

namespace ida::train {

std::string tokenizer_folder(const std::string& run_dir);  // <run>/tokenizer

// Refuses (kUsage) a folder that belongs to another configuration, naming the first settings that differ.
void check_run_folder(const config::RunConfig& config, const std::string& run_dir);

// Writes config.resolved.toml when it is missing or its text changed, and creates the tokenizer's folder.
void write_run_config(const config::RunConfig& config, const std::string& run_dir);

// The device's library choices (runtime::Device::library_choices) of a run, in its folder's gemm_plans.json. Taking them:
// "" where they are used from now on or there are none, else why they cannot be.
std::string adopt_library_choices(runtime::Device& device, const std::string& dir);
void keep_library_choices(const runtime::Device& device, const std::string& dir);

}  // namespace ida::train
