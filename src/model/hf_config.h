// config.json of Hugging Face checkpoints <-> ModelConfig, through the family table.
//
// Both spellings are read: transformers 4 (torch_dtype, rope_theta, rope_scaling) and 5 (dtype, rope_parameters), and
// "type" for "rope_type". Every key of a file must be accounted for: read into ModelConfig, known to change nothing, or
// known to be harmless at one neutral value; anything else is refused with its name and value. Two spellings of one
// fact that disagree are refused.
#pragma once
#include <string>
#include <string_view>

#include "model/model_config.h"

namespace ida::model {

// Text of a config.json. `origin` (its path) starts every error message. Not JSON: kCorrupt. A key, value or shape that
// is not implemented or makes no sense: kUsage. float16 checkpoints become dtype kF32 (every f16 value is an f32 value).
ModelConfig parse_hf_config(std::string_view json, std::string_view origin);

// config.json text with both spellings, keys sorted, that transformers 4.x and 5.x load. parse_hf_config of it returns
// an equal ModelConfig. kUsage when the family cannot express the config.
std::string write_hf_config(const ModelConfig& config);

// A model given as keys in HF spelling (a JSON object text), e.g. the [model] table of a run's config. Same table,
// defaults and refusals as a config.json, except: model_type defaults to llama; vocab_size may be absent (0: the
// tokenizer decides); absent token ids mean none.
ModelConfig model_config_from_keys(std::string_view json, std::string_view origin);

// `base` with the given keys (HF spelling, a JSON object text) replaced. model_type cannot change.
ModelConfig override_model_config(const ModelConfig& base, std::string_view json, std::string_view origin);

// Refuses (kUsage) sizes that contradict each other or are absurd. vocab_size 0 is accepted as "not yet known".
void check_model_config(const ModelConfig& config, std::string_view origin);

}  // namespace ida::model
