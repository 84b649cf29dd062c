#include "model/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "model/family.h"
#include "model/hf_config_keys.h"
#include "model/hf_keys.h"

namespace ida::model {
namespace {

using Json = nlohmann::json;

// One spelling of the rotary embedding: a rope_scaling (v4) or rope_parameters (v5) object.
struct RopeBlock {
  RopeConfig rope;              // theta is not set here
  std::optional<double> theta;  // `rope_theta` inside the object
};

double require_real(KeyReader& keys, const std::string& key) {
  const std::optional<double> value = keys.take_real(key);
  if (!value) fail_usage("{}: llama3 rope scaling lacks its key '{}'", keys.origin(), key);
  return *value;
}

std::optional<RopeBlock> read_rope_block(KeyReader& keys, const std::string& name) {
  const Json* value = keys.take(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  KeyReader block(*value, keys.origin(), name + ".");
  const std::optional<std::string> rope_type = block.take_string("rope_type");
  const std::optional<std::string> alias = block.take_string("type");
  if (rope_type && alias && *rope_type != *alias) {
    fail_usage("{}: {}.rope_type = '{}' and {}.type = '{}' contradict each other", keys.origin(), name,
               printable_excerpt(*rope_type), name, printable_excerpt(*alias));
  }
  const std::string type = rope_type ? *rope_type : alias.value_or("default");

  RopeBlock result;
  result.theta = block.take_real("rope_theta");
  const std::optional<double> partial = block.take_real("partial_rotary_factor");
  if (partial && *partial != 1.0) block.refuse_value("partial_rotary_factor", "1 (partial rotation is not implemented)");
  if (type == "llama3") {
    result.rope.type = RopeType::kLlama3;
    result.rope.factor = require_real(block, "factor");
    result.rope.low_freq_factor = require_real(block, "low_freq_factor");
    result.rope.high_freq_factor = require_real(block, "high_freq_factor");
    result.rope.original_max_position_embeddings = block.require_int("original_max_position_embeddings");
  } else if (type != "default") {
    fail_usage("{}: {}.rope_type '{}' is not implemented; implemented: default, llama3", keys.origin(), name,
               printable_excerpt(type));
  }
  block.refuse_every_unread();
  return result;
}

RopeConfig read_rope(KeyReader& keys) {
  const std::optional<RopeBlock> v5 = read_rope_block(keys, "rope_parameters");
  const std::optional<RopeBlock> v4 = read_rope_block(keys, "rope_scaling");
  if (v5 && v4 && v5->rope != v4->rope) {
    fail_usage("{}: rope_parameters and rope_scaling contradict each other; keep one", keys.origin());
  }
  RopeConfig rope = v5 ? v5->rope : v4 ? v4->rope : RopeConfig{};
  std::optional<double> theta = keys.take_real("rope_theta");
  for (const std::optional<RopeBlock>* block : {&v5, &v4}) {
    if (!*block || !(*block)->theta) continue;
    if (theta && *theta != *(*block)->theta) {
      fail_usage("{}: rope_theta is given as {} and as {}; keep one", keys.origin(), *theta, *(*block)->theta);
    }
    theta = (*block)->theta;
  }
  rope.theta = theta.value_or(RopeConfig{}.theta);
  return rope;
}

bool read_bias(KeyReader& keys, const std::string& key, BiasRule rule) {
  const std::optional<bool> value = keys.take_bool(key);
  if (rule == BiasRule::kByKey) return value.value_or(false);
  const bool fixed = rule == BiasRule::kAlways;
  if (value && *value != fixed) keys.refuse_value(key, fixed ? "true for this model_type" : "false for this model_type");
  return fixed;
}

std::int64_t read_window_size(KeyReader& keys, const Family& family) {
  const bool off = keys.is_null("sliding_window");
  const std::optional<std::int64_t> window = keys.take_int("sliding_window");
  if (off) return 0;
  if (window && *window <= 0) keys.refuse_value("sliding_window", "a positive integer or null");
  return window.value_or(family.default_sliding_window);
}

// `layer_types` as windows; empty when the key is absent or null.
std::vector<std::int64_t> read_layer_types(KeyReader& keys, std::int64_t num_layers, std::int64_t window) {
  const Json* types = keys.take("layer_types");
  if (types == nullptr || types->is_null()) return {};
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) != num_layers) {
    keys.refuse_value("layer_types", fmt::format("an array of {} names (num_hidden_layers)", num_layers));
  }
  std::vector<std::int64_t> windows;
  for (const Json& type : *types) {
    if (type == "full_attention") {
      windows.push_back(0);
    } else if (type == "sliding_attention" && window > 0) {
      windows.push_back(window);
    } else if (type == "sliding_attention") {
      keys.refuse_value("layer_types", "full_attention only, because no sliding window is switched on");
    } else {
      keys.refuse_value("layer_types", "full_attention or sliding_attention");
    }
  }
  return windows;
}

std::vector<std::int64_t> read_layer_windows(KeyReader& keys, const Family& family, std::int64_t num_layers) {
  std::int64_t window = 0;
  std::int64_t first_sliding_layer = 0;
  if (family.window == WindowRule::kEveryLayer) {
    window = read_window_size(keys, family);
  } else if (family.window == WindowRule::kByLayer) {
    const bool use = keys.take_bool("use_sliding_window").value_or(false);
    const std::int64_t size = read_window_size(keys, family);
    window = use ? size : 0;
    first_sliding_layer = keys.take_int("max_window_layers").value_or(family.default_max_window_layers);
    if (first_sliding_layer < 0) keys.refuse_value("max_window_layers", "an integer of at least 0");
  }
  std::vector<std::int64_t> by_rule(num_layers, 0);
  for (std::int64_t layer = first_sliding_layer; layer < num_layers; ++layer) by_rule[layer] = window;
  const std::vector<std::int64_t> by_type = read_layer_types(keys, num_layers, window);
  if (by_type.empty()) return by_rule;
  if (family.window != WindowRule::kByLayer && by_type != by_rule) {
    keys.refuse_value("layer_types", "the same attention on every layer for this model_type");
  }
  return by_type;
}

DType read_dtype(KeyReader& keys) {
  std::optional<std::string> v5 = keys.take_string("dtype");
  const std::optional<std::string> v4 = keys.take_string("torch_dtype");
  if (v5 && v4 && *v5 != *v4) {
    fail_usage("{}: dtype = '{}' and torch_dtype = '{}' contradict each other", keys.origin(), printable_excerpt(*v5),
               printable_excerpt(*v4));
  }
  std::string name = v5 ? *v5 : v4.value_or("float32");
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "bfloat16") return DType::kBF16;
  if (name != "float32" && name != "float16") {
    keys.refuse_value(v5 ? "dtype" : "torch_dtype", "float32, bfloat16 or float16");
  }
  return DType::kF32;
}

// An id, or -1. Old files write -1 for "none".
std::int64_t read_token_id(KeyReader& keys, const std::string& key, std::int64_t if_absent) {
  const bool off = keys.is_null(key);
  const std::int64_t id = keys.take_int(key).value_or(off ? -1 : if_absent);
  if (id < -1) keys.refuse_value(key, "a token id");
  return id;
}

std::vector<std::int64_t> read_eos_ids(KeyReader& keys, std::int64_t if_absent) {
  const std::string key = "eos_token_id";
  const Json* value = keys.take(key);
  if (value == nullptr) return if_absent >= 0 ? std::vector{if_absent} : std::vector<std::int64_t>{};
  std::vector<std::int64_t> ids;
  if (!value->is_array()) {
    const std::int64_t id = read_token_id(keys, key, -1);
    if (id >= 0) ids.push_back(id);
    return ids;
  }
  for (const Json& id : *value) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::uint64_t{1} << 40) {
      keys.refuse_value(key, "a token id or a list of them");
    }
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

void check_architecture(KeyReader& keys, const Family& family) {
  const Json* value = keys.take("architectures");
  if (value == nullptr || value->is_null() || value->empty()) return;
  if (!value->is_array() || std::find(value->begin(), value->end(), Json(family.architecture)) == value->end()) {
    keys.refuse_value("architectures", fmt::format("[\"{}\"]", family.architecture));
  }
}

void read_attention_shape(KeyReader& keys, const Family& family, ModelConfig& config) {
  config.num_attention_heads = keys.require_int("num_attention_heads");
  config.num_key_value_heads = keys.take_int("num_key_value_heads").value_or(config.num_attention_heads);
  const bool head_dim_null = keys.is_null("head_dim");
  std::optional<std::int64_t> head_dim = keys.take_int("head_dim");
  if (!head_dim && !head_dim_null && family.default_head_dim > 0) head_dim = family.default_head_dim;
  if (!head_dim) {
    if (config.num_attention_heads <= 0 || config.hidden_size % config.num_attention_heads != 0) {
      fail_usage("{}: hidden_size = {} is not a multiple of num_attention_heads = {}; give head_dim", keys.origin(),
                 config.hidden_size, config.num_attention_heads);
    }
    head_dim = config.hidden_size / config.num_attention_heads;
  }
  config.head_dim = *head_dim;
}

}  // namespace

ModelConfig read_config_keys(const Json& object, std::string_view origin, KeySource source) {
  const bool from_file = source == KeySource::kCheckpoint;
  KeyReader keys(object, origin);
  const std::optional<std::string> model_type = keys.take_string("model_type");
  if (!model_type && from_file) fail_usage("{}: key 'model_type' is missing", origin);
  const Family& family = find_family(model_type.value_or("llama"), origin);
  check_architecture(keys, family);

  ModelConfig config;
  config.model_type = family.model_type;
  config.vocab_size = from_file ? keys.require_int("vocab_size") : keys.take_int("vocab_size").value_or(0);
  config.hidden_size = keys.require_int("hidden_size");
  config.intermediate_size = keys.require_int("intermediate_size");
  config.num_hidden_layers = keys.require_int("num_hidden_layers");
  read_attention_shape(keys, family, config);
  config.max_position_embeddings =
      keys.take_int("max_position_embeddings").value_or(family.default_max_position_embeddings);
  config.rms_norm_eps = keys.take_real("rms_norm_eps").value_or(config.rms_norm_eps);
  config.initializer_range = keys.take_real("initializer_range").value_or(config.initializer_range);
  config.tie_word_embeddings = keys.take_bool("tie_word_embeddings").value_or(false);
  config.qkv_bias = read_bias(keys, "attention_bias", family.qkv_bias);
  config.o_bias = config.qkv_bias && family.o_bias == BiasRule::kByKey;
  config.mlp_bias = read_bias(keys, "mlp_bias", family.mlp_bias);
  config.qk_norm = family.qk_norm;
  config.rope = read_rope(keys);
  config.dtype = read_dtype(keys);
  config.bos_token_id = read_token_id(keys, "bos_token_id", from_file ? family.default_bos_token_id : -1);
  config.eos_token_ids = read_eos_ids(keys, from_file ? family.default_eos_token_id : -1);
  config.pad_token_id = read_token_id(keys, "pad_token_id", -1);
  if (from_file && config.vocab_size == 0) keys.refuse_value("vocab_size", "a positive integer");
  check_model_sizes(config, origin);
  config.layer_window = read_layer_windows(keys, family, config.num_hidden_layers);
  keys.refuse_unread();
  check_model_config(config, origin);
  return config;
}

ModelConfig parse_hf_config(std::string_view json, std::string_view origin) {
  return read_config_keys(parse_json(json, origin), origin, KeySource::kCheckpoint);
}

ModelConfig model_config_from_keys(std::string_view json, std::string_view origin) {
  return read_config_keys(parse_json(json, origin), origin, KeySource::kRunConfig);
}

}  // namespace ida::model
