// Named model shapes.
#pragma once
#include <span>
#include <string_view>

#include "config/run_config.h"

namespace ida::config {

struct Preset {
  std::string_view name;
  ModelSettings model;                // every size; preset and path not set
  std::string_view unavailable = "";  // why it cannot be trained yet, or ""
};

std::span<const Preset> all_presets();
std::span<const std::string_view> preset_names();
// nullptr where there is none of that name.
const Preset* find_preset(std::string_view name);

}  // namespace ida::config
