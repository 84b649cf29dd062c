#include <cmath>

#include "base/error.h"
#include "model/hf_config.h"
#include "model/hf_config_keys.h"

namespace ida::model {
namespace {

// Far above any decoder that exists, low enough that products of two sizes stay inside 64 bits.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 16;
constexpr double kMaxParameters = 1e14;

void check_size(std::string_view origin, std::string_view key, std::int64_t value, std::int64_t max_value) {
  if (value < 1 || value > max_value) {
    fail_usage("{}: {} = {} is out of range, expected 1 to {}", origin, key, value, max_value);
  }
}

void check_positive(std::string_view origin, std::string_view key, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) {
    fail_usage("{}: {} = {} is out of range, expected a positive number", origin, key, value);
  }
}

void check_rope(const RopeConfig& rope, std::string_view origin) {
  check_positive(origin, "rope_theta", rope.theta);
  if (rope.type != RopeType::kLlama3) return;
  check_positive(origin, "llama3 factor", rope.factor);
  check_positive(origin, "llama3 low_freq_factor", rope.low_freq_factor);
  check_positive(origin, "llama3 high_freq_factor", rope.high_freq_factor);
  check_size(origin, "llama3 original_max_position_embeddings", rope.original_max_position_embeddings, kMaxSize);
  if (rope.factor < 1.0) fail_usage("{}: llama3 factor = {} is below 1", origin, rope.factor);
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    fail_usage("{}: llama3 low_freq_factor = {} must be below high_freq_factor = {}", origin, rope.low_freq_factor,
               rope.high_freq_factor);
  }
}

void check_token_id(const ModelConfig& config, std::string_view origin, std::string_view key, std::int64_t id) {
  if (config.vocab_size > 0 && id >= config.vocab_size) {
    fail_usage("{}: {} = {} is outside the vocabulary of {} tokens", origin, key, id, config.vocab_size);
  }
}

// Upper estimate in floating point: the exact count can exceed 64 bits.
double estimated_parameters(const ModelConfig& c) {
  const double hidden = static_cast<double>(c.hidden_size);
  const double attention =
      hidden * static_cast<double>(c.head_dim) *
      (2.0 * static_cast<double>(c.num_attention_heads) + 2.0 * static_cast<double>(c.num_key_value_heads));
  const double mlp = 3.0 * hidden * static_cast<double>(c.intermediate_size);
  return static_cast<double>(c.num_hidden_layers) * (attention + mlp) + 2.0 * hidden * static_cast<double>(c.vocab_size);
}

}  // namespace

void check_model_sizes(const ModelConfig& config, std::string_view origin) {
  if (config.vocab_size != 0) check_size(origin, "vocab_size", config.vocab_size, kMaxSize);
  check_size(origin, "hidden_size", config.hidden_size, kMaxSize);
  check_size(origin, "intermediate_size", config.intermediate_size, kMaxSize);
  check_size(origin, "num_hidden_layers", config.num_hidden_layers, kMaxLayers);
  check_size(origin, "num_attention_heads", config.num_attention_heads, kMaxSize);
  check_size(origin, "num_key_value_heads", config.num_key_value_heads, kMaxSize);
  check_size(origin, "head_dim", config.head_dim, kMaxSize);
  check_size(origin, "max_position_embeddings", config.max_position_embeddings, std::int64_t{1} << 40);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fail_usage("{}: num_attention_heads = {} is not a multiple of num_key_value_heads = {}", origin,
               config.num_attention_heads, config.num_key_value_heads);
  }
  if (config.head_dim % 2 != 0) {
    fail_usage("{}: head_dim = {} is odd; rotary embedding turns pairs", origin, config.head_dim);
  }
  if (estimated_parameters(config) > kMaxParameters) {
    fail_usage("{}: the sizes make about {:.1e} parameters, at most {:.0e} are accepted", origin,
               estimated_parameters(config), kMaxParameters);
  }
}

void check_model_config(const ModelConfig& config, std::string_view origin) {
  check_model_sizes(config, origin);
  check_positive(origin, "rms_norm_eps", config.rms_norm_eps);
  if (!(config.initializer_range >= 0.0) || !std::isfinite(config.initializer_range)) {
    fail_usage("{}: initializer_range = {} is out of range, expected a number of at least 0", origin,
               config.initializer_range);
  }
  check_rope(config.rope, origin);
  if (static_cast<std::int64_t>(config.layer_window.size()) != config.num_hidden_layers) {
    fail_usage("{}: {} attention windows for {} layers", origin, config.layer_window.size(), config.num_hidden_layers);
  }
  for (const std::int64_t window : config.layer_window) {
    if (window < 0) fail_usage("{}: sliding_window = {} is negative", origin, window);
  }
  check_token_id(config, origin, "bos_token_id", config.bos_token_id);
  check_token_id(config, origin, "pad_token_id", config.pad_token_id);
  for (const std::int64_t id : config.eos_token_ids) check_token_id(config, origin, "eos_token_id", id);
}

}  // namespace ida::model
