#include "model/hf_keys.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace ida::model {
namespace {

using Json = nlohmann::json;

// Keys that never change what the decoder computes: provenance, caching, output format, labels of other heads, and
// sampling defaults that old files keep beside the shape.
constexpr auto kHarmlessKeys = std::to_array<std::string_view>({
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
});

// Keys of features that are not implemented, with the values (a JSON array) at which they are off.
struct NeutralKey {
  std::string_view key;
  std::string_view values;
};

constexpr auto kNeutralKeys = std::to_array<NeutralKey>({
    {"add_cross_attention", "[false]"},
    {"attention_dropout", "[0]"},
    {"attn_logit_softcapping", "[null]"},
    {"auto_map", "[null]"},
    {"chunk_size_feed_forward", "[0]"},
    {"clip_qkv", "[null]"},
    {"cross_attention_hidden_size", "[null]"},
    {"embd_pdrop", "[0]"},
    {"final_logit_softcapping", "[null]"},
    {"hidden_act", R"(["silu", "swish"])"},
    {"hidden_dropout", "[0]"},
    {"is_encoder_decoder", "[false]"},
    {"partial_rotary_factor", "[1, null]"},
    {"pretraining_tp", "[1]"},
    {"pruned_heads", "[{}, null]"},
    {"quantization_config", "[null]"},
    {"resid_pdrop", "[0]"},
    {"rope_interleaved", "[false, null]"},
    {"sliding_window", "[null]"},
    {"tie_encoder_decoder", "[false]"},
    {"use_bfloat16", "[false]"},
    {"use_mrope", "[false]"},
    {"use_sliding_window", "[false, null]"},
});

bool is_harmless(std::string_view key) {
  for (const std::string_view known : kHarmlessKeys) {
    if (known == key) return true;
  }
  return false;
}

const NeutralKey* find_neutral(std::string_view key) {
  for (const NeutralKey& known : kNeutralKeys) {
    if (known.key == key) return &known;
  }
  return nullptr;
}

// Numbers compare by value (0 equals 0.0), a boolean never equals a number.
bool is_one_of(const Json& value, std::string_view values) {
  for (const Json& allowed : Json::parse(values)) {
    if (value == allowed && value.is_boolean() == allowed.is_boolean()) return true;
  }
  return false;
}

}  // namespace

KeyReader::KeyReader(const Json& object, std::string_view origin, std::string prefix)
    : object_(object), origin_(origin), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    fail_usage("{}: expected a JSON object{}, got {}", origin, prefix_.empty() ? "" : " at " + prefix_,
               json_excerpt(object));
  }
}

const Json* KeyReader::take(const std::string& key) {
  const auto found = object_.find(key);
  if (found == object_.end()) return nullptr;
  read_.insert(key);
  return &*found;
}

std::optional<std::int64_t> KeyReader::take_int(const std::string& key) {
  const Json* value = take(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const bool in_range =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{1} << 62);
  if (!in_range) refuse_value(key, "an integer below 2^62");
  return value->get<std::int64_t>();
}

std::optional<double> KeyReader::take_real(const std::string& key) {
  const Json* value = take(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse_value(key, "a finite number");
  return value->get<double>();
}

std::optional<bool> KeyReader::take_bool(const std::string& key) {
  const Json* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_value(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> KeyReader::take_string(const std::string& key) {
  const Json* value = take(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_string()) refuse_value(key, "a string");
  return value->get<std::string>();
}

bool KeyReader::is_null(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

std::int64_t KeyReader::require_int(const std::string& key) {
  const std::optional<std::int64_t> value = take_int(key);
  if (!value) fail_usage("{}: key '{}{}' is missing; give it a positive integer", origin_, prefix_, key);
  return *value;
}

void KeyReader::refuse_unread() const {
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key) || is_harmless(key)) continue;
    const NeutralKey* neutral = find_neutral(key);
    if (neutral == nullptr) {
      fail_usage("{}: key '{}{}' (= {}) is not known for this model_type and could change the model", origin_, prefix_,
                 printable_excerpt(key), json_excerpt(value));
    }
    if (!is_one_of(value, neutral->values)) {
      fail_usage("{}: key '{}{}' = {} is not implemented; only {} is", origin_, prefix_, key, json_excerpt(value),
                 neutral->values);
    }
  }
}

void KeyReader::refuse_every_unread() const {
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    fail_usage("{}: key '{}{}' (= {}) is not implemented", origin_, prefix_, printable_excerpt(key), json_excerpt(value));
  }
}

void KeyReader::refuse_value(const std::string& key, std::string_view expected) const {
  fail_usage("{}: key '{}{}': expected {}, got {}", origin_, prefix_, key, expected, json_excerpt(object_.at(key)));
}

}  // namespace ida::model
