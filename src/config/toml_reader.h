// TOML text -> settings, checked against the declarations.
#pragma once
#include <string_view>

#include "config/run_config.h"

namespace ida::config {

// Reads a whole file. Problems are collected and the one on the lowest line is thrown (kUsage), so that a message never
// depends on the alphabetical order of keys.
void read_file_text(std::string_view toml_text, std::string_view origin, RunConfig& config);

// Reads one "a.b=value".
void read_override(std::string_view text, RunConfig& config);

}  // namespace ida::config
