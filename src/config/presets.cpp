#include "config/presets.h"

#include <algorithm>
#include <array>

namespace ida::config {
namespace {

// SmolLM2 shapes: the published config.json of each size. ember-30m and tiny are this project's own.
const std::array<Preset, 5> kPresets = {{
    {.name = "tiny",
     .model = {.model_type = "llama",
               .hidden_size = 256,
               .intermediate_size = 640,
               .num_hidden_layers = 4,
               .num_attention_heads = 4,
               .num_key_value_heads = 2,
               .vocab_size = 4096,
               .max_position_embeddings = 2048,
               .rms_norm_eps = 1e-5,
               .rope_theta = 10000.0,
               .tie_word_embeddings = true,
               .initializer_range = 0.02}},
    {.name = "ember-30m",
     .model = {.model_type = "llama",
               .hidden_size = 512,
               .intermediate_size = 1536,
               .num_hidden_layers = 8,
               .num_attention_heads = 8,
               .num_key_value_heads = 8,
               .vocab_size = 8192,
               .max_position_embeddings = 2048,
               .rms_norm_eps = 1e-5,
               .rope_theta = 10000.0,
               .tie_word_embeddings = true,
               .initializer_range = 0.02}},
    {.name = "smollm2-135m",
     .model = {.model_type = "llama",
               .hidden_size = 576,
               .intermediate_size = 1536,
               .num_hidden_layers = 30,
               .num_attention_heads = 9,
               .num_key_value_heads = 3,
               .vocab_size = 49152,
               .max_position_embeddings = 8192,
               .rms_norm_eps = 1e-5,
               .rope_theta = 100000.0,
               .tie_word_embeddings = true,
               .initializer_range = 1.0 / 24.0}},
    {.name = "smollm2-1.7b",
     .model = {.model_type = "llama",
               .hidden_size = 2048,
               .intermediate_size = 8192,
               .num_hidden_layers = 24,
               .num_attention_heads = 32,
               .num_key_value_heads = 32,
               .vocab_size = 49152,
               .max_position_embeddings = 8192,
               .rms_norm_eps = 1e-5,
               .rope_theta = 130000.0,
               .tie_word_embeddings = true,
               .initializer_range = 0.02}},
    {.name = "minitron-4b", .model = {.model_type = "nemotron"}, .unavailable = "family nemotron is not implemented"},
}};

constexpr std::array<std::string_view, 5> kNames = {"tiny", "ember-30m", "smollm2-135m", "smollm2-1.7b", "minitron-4b"};

}  // namespace

std::span<const Preset> all_presets() { return kPresets; }

std::span<const std::string_view> preset_names() { return kNames; }

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  return found == kPresets.end() ? nullptr : &*found;
}

}  // namespace ida::config
