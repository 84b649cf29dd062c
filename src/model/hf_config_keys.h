// The steps shared by the readers and writers of hf_config.h. Internal to the model room.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "model/model_config.h"

namespace ida::model {

enum class KeySource {
  kCheckpoint,  // a config.json: vocab_size is required, absent token ids take the family's defaults
  kRunConfig    // [model] of a run: the tokenizer decides both
};

ModelConfig read_config_keys(const nlohmann::json& object, std::string_view origin, KeySource source);
// The part of check_model_config that needs no layer_window.
void check_model_sizes(const ModelConfig& config, std::string_view origin);

}  // namespace ida::model
