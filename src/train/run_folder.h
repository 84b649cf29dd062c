// A run's folder: its stored configuration and whether a given configuration may continue it.
#pragma once
#include <string>

#include "config/load.h"

namespace ida::train {

std::string tokenizer_folder(const std::string& run_dir);  // <run>/tokenizer

// Refuses (kUsage) a folder that belongs to another configuration, naming the first settings that differ.
void check_run_folder(const config::RunConfig& config, const std::string& run_dir);

// Writes config.resolved.toml when it is missing or its text changed, and creates the tokenizer's folder.
void write_run_config(const config::RunConfig& config, const std::string& run_dir);

}  // namespace ida::train
