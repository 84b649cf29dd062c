// Names of precision recipes, and which of them this build can run.
#pragma once
#include <array>
#include <string_view>

namespace ida::config {

inline constexpr std::array<std::string_view, 15> kRecipes = {
    "bf16",         "fp32",           "fp8_tensor",  "fp8_delayed",     "fp8_row",        "fp8_block",
    "mxfp8",        "mxfp4",          "nvfp4_plain", "nvfp4_head_bf16", "nvfp4_prescale", "nvfp4_two_level",
    "nvfp4_nvidia", "nvfp4_quartet2", "nvfp4"};

inline constexpr std::array<std::string_view, 2> kAvailableRecipes = {"bf16", "fp32"};

}  // namespace ida::config
