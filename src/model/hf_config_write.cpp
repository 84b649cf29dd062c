#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "model/family.h"
#include "model/hf_config.h"
#include "model/hf_config_keys.h"

namespace ida::model {
namespace {

using Json = nlohmann::json;

Json token_id_json(std::int64_t id) { return id >= 0 ? Json(id) : Json(nullptr); }

Json eos_json(const std::vector<std::int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

Json rope_scaling_json(const RopeConfig& rope) {
  if (rope.type == RopeType::kDefault) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_max_position_embeddings}};
}

Json rope_parameters_json(const RopeConfig& rope) {
  Json block = rope.type == RopeType::kDefault ? Json{{"rope_type", "default"}} : rope_scaling_json(rope);
  block["rope_theta"] = rope.theta;
  return block;
}

void put_window_keys(const ModelConfig& config, const Family& family, Json& object) {
  const std::vector<std::int64_t>& windows = config.layer_window;
  const std::int64_t window = *std::max_element(windows.begin(), windows.end());
  const auto is_full_or_same = [window](std::int64_t w) { return w == 0 || w == window; };
  const auto is_same = [window](std::int64_t w) { return w == window; };
  const auto fits = [&](auto&& rule) { return std::all_of(windows.begin(), windows.end(), rule); };
  const bool expressible = (family.window == WindowRule::kNone && window == 0) ||
                           (family.window == WindowRule::kEveryLayer && fits(is_same)) ||
                           (family.window == WindowRule::kByLayer && fits(is_full_or_same));
  if (!expressible) {
    fail_usage("config.json: model_type '{}' cannot express these sliding windows", config.model_type);
  }
  if (family.window == WindowRule::kNone) return;
  object["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  if (family.window == WindowRule::kEveryLayer) return;
  object["use_sliding_window"] = window > 0;
  const auto first = std::find_if(windows.begin(), windows.end(), [](std::int64_t w) { return w > 0; });
  object["max_window_layers"] = first - windows.begin();
  Json types = Json::array();
  for (const std::int64_t w : windows) types.push_back(w > 0 ? "sliding_attention" : "full_attention");
  object["layer_types"] = types;
}

void put_bias_key(Json& object, const std::string& key, BiasRule rule, bool value, const std::string& model_type) {
  if (rule == BiasRule::kByKey) {
    object[key] = value;
  } else if (value != (rule == BiasRule::kAlways)) {
    fail_usage("config.json: model_type '{}' cannot express {} = {}", model_type, key, value);
  }
}

// Every fact once, in the version-4 spelling of rope and the version-5 spelling of dtype.
Json config_keys(const ModelConfig& config) {
  check_model_config(config, "config.json");
  const Family& family = find_family(config.model_type, "config.json");
  if (config.qk_norm != family.qk_norm || config.o_bias != (config.qkv_bias && family.o_bias == BiasRule::kByKey)) {
    fail_usage("config.json: model_type '{}' cannot express these biases or q/k norms", config.model_type);
  }
  Json object;
  object["model_type"] = config.model_type;
  object["vocab_size"] = config.vocab_size;
  object["hidden_size"] = config.hidden_size;
  object["intermediate_size"] = config.intermediate_size;
  object["num_hidden_layers"] = config.num_hidden_layers;
  object["num_attention_heads"] = config.num_attention_heads;
  object["num_key_value_heads"] = config.num_key_value_heads;
  object["head_dim"] = config.head_dim;
  object["max_position_embeddings"] = config.max_position_embeddings;
  object["rms_norm_eps"] = config.rms_norm_eps;
  object["initializer_range"] = config.initializer_range;
  object["tie_word_embeddings"] = config.tie_word_embeddings;
  object["rope_theta"] = config.rope.theta;
  object["rope_scaling"] = rope_scaling_json(config.rope);
  object["dtype"] = config.dtype == DType::kBF16 ? "bfloat16" : "float32";
  object["bos_token_id"] = token_id_json(config.bos_token_id);
  object["eos_token_id"] = eos_json(config.eos_token_ids);
  object["pad_token_id"] = token_id_json(config.pad_token_id);
  put_bias_key(object, "attention_bias", family.qkv_bias, config.qkv_bias, config.model_type);
  put_bias_key(object, "mlp_bias", family.mlp_bias, config.mlp_bias, config.model_type);
  put_window_keys(config, family, object);
  return object;
}

}  // namespace

std::string write_hf_config(const ModelConfig& config) {
  if (config.vocab_size < 1) fail_usage("config.json: vocab_size is not set");
  Json object = config_keys(config);
  object["architectures"] = {find_family(config.model_type, "config.json").architecture};
  object["attention_dropout"] = 0.0;
  object["hidden_act"] = "silu";
  object["rope_parameters"] = rope_parameters_json(config.rope);
  object["torch_dtype"] = object["dtype"];
  object["use_cache"] = true;
  return object.dump(2) + "\n";
}

ModelConfig override_model_config(const ModelConfig& base, std::string_view json, std::string_view origin) {
  const Json changes = parse_json(json, origin);
  if (!changes.is_object()) fail_usage("{}: expected a JSON object, got {}", origin, json_excerpt(changes));
  if (changes.contains("model_type") && changes["model_type"] != base.model_type) {
    fail_usage("{}: model_type = {} cannot replace '{}'", origin, json_excerpt(changes["model_type"]), base.model_type);
  }
  Json object = config_keys(base);
  // What was derived follows its source, and a fact given in the other spelling replaces this one.
  if (base.head_dim * base.num_attention_heads == base.hidden_size) object["head_dim"] = nullptr;
  if (base.num_key_value_heads == base.num_attention_heads) object.erase("num_key_value_heads");
  if (changes.contains("num_hidden_layers") || changes.contains("max_window_layers")) object.erase("layer_types");
  if (changes.contains("use_sliding_window") || changes.contains("sliding_window")) object.erase("layer_types");
  if (changes.contains("torch_dtype")) object.erase("dtype");
  if (changes.contains("rope_parameters")) {
    object.erase("rope_scaling");
    if (changes["rope_parameters"].is_object() && changes["rope_parameters"].contains("rope_theta"))
      object.erase("rope_theta");
  }
  object.update(changes);
  return read_config_keys(object, origin, KeySource::kRunConfig);
}

}  // namespace ida::model
