#include "model/hf_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "model/family.h"

namespace ida::model {
namespace {

using Json = nlohmann::json;

Json base_keys(const std::string& model_type) {
  Json keys = {{"model_type", model_type}, {"vocab_size", 320},      {"hidden_size", 64},
               {"intermediate_size", 160}, {"num_hidden_layers", 4}, {"num_attention_heads", 4},
               {"num_key_value_heads", 2}, {"head_dim", 16}};
  if (model_type == "mistral") keys["sliding_window"] = nullptr;
  return keys;
}

ModelConfig parse(const Json& keys) { return parse_hf_config(keys.dump(), "config.json"); }

ModelConfig parse_with(Json keys, const Json& changes) {
  keys.update(changes);
  return parse(keys);
}

// The message of the refusal, or "" when there is none; fails the test when the exit code is not `code`.
std::string refusal(const std::string& text, ExitCode code = ExitCode::kUsage) {
  try {
    parse_hf_config(text, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

std::string refusal_with(const std::string& model_type, const Json& changes) {
  Json keys = base_keys(model_type);
  keys.update(changes);
  return refusal(keys.dump());
}

void expect_refused(const std::string& model_type, const Json& changes, const std::string& named) {
  const std::string message = refusal_with(model_type, changes);
  EXPECT_NE(message.find(named), std::string::npos) << model_type << " " << changes << " -> '" << message << "'";
}

TEST(HfConfig, GoldenCasesOfTransformers5) {
  const std::string root = std::string(IDA_TESTS_DIR) + "/golden/";
  for (const char* name :
       {"llama_mha", "llama_gqa_tied", "llama_packed", "llama3_ropescaled", "mistral_swa", "qwen2", "qwen3"}) {
    const std::string path = root + name + "/config.json";
    const ModelConfig config = parse_hf_config(read_file(path), path);
    EXPECT_EQ(config.hidden_size, 64) << name;
    EXPECT_EQ(config.bos_token_id, 1) << name;
    EXPECT_EQ(config.pad_token_id, 0) << name;
    EXPECT_EQ(parse_hf_config(write_hf_config(config), "written"), config) << name;
  }
  const auto load = [&root](const std::string& name) {
    return parse_hf_config(read_file(root + name + "/config.json"), name);
  };
  const ModelConfig llama3 = load("llama3_ropescaled");
  EXPECT_EQ(llama3.rope.type, RopeType::kLlama3);
  EXPECT_EQ(llama3.rope.theta, 500000.0);
  EXPECT_EQ(llama3.rope.factor, 8.0);
  EXPECT_EQ(llama3.rope.original_max_position_embeddings, 64);
  EXPECT_EQ(load("mistral_swa").layer_window, (std::vector<std::int64_t>{16, 16}));
  EXPECT_TRUE(load("qwen2").qkv_bias);
  EXPECT_FALSE(load("qwen2").o_bias);
  EXPECT_EQ(load("qwen2").head_dim, 16);
  EXPECT_TRUE(load("qwen3").qk_norm);
  EXPECT_FALSE(load("qwen3").qkv_bias);
}

TEST(HfConfig, BothSpellingsGiveTheSameModel) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  Json alias = llama3;
  alias.erase("rope_type");
  alias["type"] = "llama3";
  Json inside = llama3;
  inside["rope_theta"] = 5e5;
  const Json keys = base_keys("llama");
  const ModelConfig v4 = parse_with(keys, {{"torch_dtype", "bfloat16"}, {"rope_theta", 5e5}, {"rope_scaling", llama3}});
  EXPECT_EQ(v4.dtype, DType::kBF16);
  EXPECT_EQ(v4.rope.factor, 32.0);
  EXPECT_EQ(v4, parse_with(keys, {{"dtype", "bfloat16"}, {"rope_parameters", inside}}));
  EXPECT_EQ(v4, parse_with(keys, {{"dtype", "bfloat16"}, {"rope_theta", 500000}, {"rope_scaling", alias}}));
  EXPECT_EQ(v4, parse_with(keys, {{"dtype", "bfloat16"},
                                  {"torch_dtype", "bfloat16"},
                                  {"rope_theta", 5e5},
                                  {"rope_scaling", llama3},
                                  {"rope_parameters", inside}}));
  EXPECT_EQ(parse_with(keys, {{"rope_theta", 12345.5}}).rope.theta, 12345.5);
  EXPECT_EQ(parse_with(keys, {{"rope_parameters", {{"rope_theta", 12345.5}}}}).rope.theta, 12345.5);
}

TEST(HfConfig, ContradictionsAreRefused) {
  const Json linear_block = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  expect_refused("llama", {{"dtype", "float32"}, {"torch_dtype", "bfloat16"}}, "torch_dtype");
  expect_refused("llama", {{"rope_theta", 5e5}, {"rope_parameters", linear_block}}, "rope_theta");
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  expect_refused("llama", {{"rope_scaling", llama3}, {"rope_parameters", linear_block}}, "rope_scaling");
  Json two_types = llama3;
  two_types["type"] = "default";
  expect_refused("llama", {{"rope_scaling", two_types}}, "rope_scaling.type");
  expect_refused("llama", {{"num_key_value_heads", 3}}, "num_key_value_heads");
  expect_refused("llama", {{"head_dim", 15}}, "head_dim");
  expect_refused("llama", {{"head_dim", nullptr}, {"hidden_size", 66}}, "hidden_size");
  expect_refused("llama", {{"bos_token_id", 320}}, "bos_token_id");
  expect_refused("llama", {{"eos_token_id", {1, 400}}}, "eos_token_id");
  expect_refused("qwen2", {{"layer_types", {"full_attention"}}}, "layer_types");
  expect_refused("qwen2", {{"layer_types", Json(4, "sliding_attention")}}, "layer_types");
}

TEST(HfConfig, SizesOutOfRangeAreRefused) {
  const char* const kSizes[] = {
      "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
      "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings"};
  for (const char* key : kSizes) {
    for (const int bad : {0, -4}) expect_refused("llama", {{key, bad}}, key);
    expect_refused("llama", {{key, 9223372036854775807LL}}, key);
    expect_refused("llama", {{key, 18446744073709551615ULL}}, key);
    expect_refused("llama", {{key, 64.5}}, key);
    expect_refused("llama", {{key, "64"}}, key);
    expect_refused("llama", {{key, true}}, key);
    expect_refused("llama", {{key, Json::array({1})}}, key);
  }
  expect_refused("llama", {{"hidden_size", 1 << 29}, {"intermediate_size", 1 << 29}}, "parameters");
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    Json keys = base_keys("llama");
    keys.erase(key);
    EXPECT_NE(refusal(keys.dump()).find(key), std::string::npos) << key;
  }
  for (const char* key : {"rms_norm_eps", "rope_theta"}) {
    expect_refused("llama", {{key, 0}}, key);
    expect_refused("llama", {{key, -1e-6}}, key);
  }
  expect_refused("llama", {{"initializer_range", -0.1}}, "initializer_range");
}

// Every key that is read must show in the result: change it, and the ModelConfig changes.
TEST(HfConfig, EveryKeyReachesTheModelConfig) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  struct Change {
    const char* model_type;
    Json value;
  };
  const Change changes[] = {
      {"llama", {{"vocab_size", 321}}},
      {"llama", {{"hidden_size", 128}}},
      {"llama", {{"intermediate_size", 161}}},
      {"llama", {{"num_hidden_layers", 3}}},
      {"llama", {{"num_attention_heads", 8}}},
      {"llama", {{"num_key_value_heads", 4}}},
      {"llama", {{"head_dim", 32}}},
      {"llama", {{"max_position_embeddings", 77}}},
      {"llama", {{"rms_norm_eps", 1e-5}}},
      {"llama", {{"initializer_range", 0.03}}},
      {"llama", {{"tie_word_embeddings", true}}},
      {"llama", {{"attention_bias", true}}},
      {"llama", {{"mlp_bias", true}}},
      {"llama", {{"rope_theta", 1e5}}},
      {"llama", {{"rope_scaling", llama3}}},
      {"llama", {{"dtype", "bfloat16"}}},
      {"llama", {{"torch_dtype", "bfloat16"}}},
      {"llama", {{"bos_token_id", 7}}},
      {"llama", {{"eos_token_id", 7}}},
      {"llama", {{"eos_token_id", {2, 7}}}},
      {"llama", {{"pad_token_id", 7}}},
      {"mistral", {{"sliding_window", 16}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 2}}},
      {"qwen3", {{"attention_bias", true}}},
  };
  for (const Change& change : changes) {
    EXPECT_NE(parse_with(base_keys(change.model_type), change.value), parse(base_keys(change.model_type))) << change.value;
  }
  for (const auto& [key, value] : llama3.items()) {
    if (key == "rope_type") continue;
    Json changed = llama3;
    changed[key] = value.get<double>() == 64.0 ? Json(65) : Json(value.get<double>() + 1.5);
    EXPECT_NE(parse_with(base_keys("llama"), {{"rope_scaling", changed}}),
              parse_with(base_keys("llama"), {{"rope_scaling", llama3}}))
        << key;
    changed.erase(key);
    expect_refused("llama", {{"rope_scaling", changed}}, key);
  }
}

TEST(HfConfig, UnknownKeysAndValuesAreRefusedByName) {
  const Json not_neutral = {{"attention_dropout", 0.1},
                            {"hidden_act", "gelu"},
                            {"pretraining_tp", 2},
                            {"rope_interleaved", true},
                            {"partial_rotary_factor", 0.5},
                            {"sliding_window", 128},
                            {"use_sliding_window", true},
                            {"quantization_config", {{"quant_method", "fp8"}}},
                            {"auto_map", {{"AutoModel", "x.Y"}}},
                            {"attn_logit_softcapping", 50.0},
                            {"hidden_dropout", 0.5},
                            {"some_new_key", 1},
                            {"num_experts", 8},
                            {"clip_qkv", 8.0},
                            {"hidden_act", "gelu"}};
  for (const auto& [key, value] : not_neutral.items()) expect_refused("llama", {{key, value}}, "'" + key + "'");
  for (const char* type : {"linear", "dynamic", "yarn", "longrope", "su", "mrope"}) {
    expect_refused("llama", {{"rope_scaling", {{"rope_type", type}, {"factor", 2.0}}}}, type);
  }
  expect_refused("llama", {{"rope_scaling", {{"rope_type", "default"}, {"factor", 2.0}}}}, "rope_scaling.factor");
  expect_refused("llama", {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}, "full_attention");
  expect_refused("llama", {{"dtype", "float8_e4m3fn"}}, "float8_e4m3fn");
  expect_refused("llama", {{"architectures", {"LlamaForSequenceClassification"}}}, "architectures");
  expect_refused("mistral", {{"attention_bias", true}}, "attention_bias");
  expect_refused("qwen2", {{"attention_bias", false}}, "attention_bias");
  expect_refused("qwen3", {{"mlp_bias", true}}, "mlp_bias");
  expect_refused("llama", {{"model_type", "gemma"}}, "gemma");
  expect_refused("llama", {{"model_type", nullptr}}, "model_type");
}

TEST(HfConfig, NeutralAndHarmlessKeysChangeNothing) {
  const Json neutral = {{"attention_dropout", 0.0},
                        {"hidden_act", "silu"},
                        {"pretraining_tp", 1},
                        {"use_cache", false},
                        {"rope_interleaved", false},
                        {"transformers_version", "4.1"},
                        {"rope_scaling", nullptr},
                        {"quantization_config", nullptr},
                        {"is_llama_config", true},
                        {"_name_or_path", "x"},
                        {"architectures", {"LlamaForCausalLM"}},
                        {"partial_rotary_factor", 1.0},
                        {"top_p", 0.9}};
  EXPECT_EQ(parse_with(base_keys("llama"), neutral), parse(base_keys("llama")));
}

TEST(HfConfig, AbsentKeysAreDerivedOrTakeTheFamilysDefault) {
  Json keys = base_keys("llama");
  keys.erase("head_dim");
  keys.erase("num_key_value_heads");
  const ModelConfig llama = parse(keys);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.num_key_value_heads, 4);
  EXPECT_EQ(llama.rope.theta, 10000.0);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_EQ(llama.eos_token_ids, std::vector<std::int64_t>{2});
  EXPECT_EQ(llama.dtype, DType::kF32);
  keys["model_type"] = "qwen3";
  EXPECT_EQ(parse(keys).head_dim, 128);
  EXPECT_TRUE(parse(keys).eos_token_ids.empty());
  keys["model_type"] = "mistral";
  EXPECT_EQ(parse(keys).layer_window, std::vector<std::int64_t>(4, 4096));
  keys["sliding_window"] = nullptr;
  EXPECT_EQ(parse(keys).layer_window, std::vector<std::int64_t>(4, 0));
}

TEST(HfConfig, SlidingWindowRulesOfQwen) {
  using Windows = std::vector<std::int64_t>;
  const Json keys = base_keys("qwen2");
  EXPECT_EQ(parse_with(keys, {{"sliding_window", 16}, {"max_window_layers", 2}}).layer_window, Windows(4, 0));
  const Json on = {{"sliding_window", 16}, {"use_sliding_window", true}, {"max_window_layers", 1}};
  EXPECT_EQ(parse_with(keys, on).layer_window, (Windows{0, 16, 16, 16}));
  Json with_types = on;
  with_types["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  const ModelConfig alternating = parse_with(keys, with_types);
  EXPECT_EQ(alternating.layer_window, (Windows{16, 0, 16, 0}));
  EXPECT_EQ(parse_hf_config(write_hf_config(alternating), "written"), alternating);
}

TEST(HfConfig, WritingIsDeterministicAndHoldsBothSpellings) {
  Json keys = base_keys("llama");
  keys["torch_dtype"] = "bfloat16";
  keys["rms_norm_eps"] = 1.2345678901234567e-5;
  keys["initializer_range"] = 0.041666666666666664;
  keys["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const ModelConfig config = parse(keys);
  const std::string text = write_hf_config(config);
  EXPECT_EQ(text, write_hf_config(parse_hf_config(text, "written")));
  const Json written = Json::parse(text);
  EXPECT_EQ(written["rope_theta"], written["rope_parameters"]["rope_theta"]);
  EXPECT_EQ(written["rope_scaling"]["factor"], written["rope_parameters"]["factor"]);
  EXPECT_EQ(written["dtype"], "bfloat16");
  EXPECT_EQ(written["torch_dtype"], "bfloat16");
  EXPECT_EQ(written["architectures"], Json({"LlamaForCausalLM"}));
  ModelConfig windowed = config;
  windowed.layer_window[0] = 8;
  EXPECT_THROW(write_hf_config(windowed), Error);
}

TEST(HfConfig, RunConfigKeysUseTheSameTable) {
  const ModelConfig config = model_config_from_keys(
      R"({"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4})", "[model]");
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.vocab_size, 0);
  EXPECT_EQ(config.bos_token_id, -1);
  EXPECT_TRUE(config.eos_token_ids.empty());
  EXPECT_THROW(write_hf_config(config), Error);
  const std::string bad = R"({"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
                             "num_attention_heads": 4, "hidden_act": "gelu"})";
  EXPECT_THROW(model_config_from_keys(bad, "[model]"), Error);
}

TEST(HfConfig, OverridesReplaceAndRederive) {
  Json keys = base_keys("llama");
  keys["num_key_value_heads"] = 4;
  const ModelConfig base = parse(keys);
  const ModelConfig wide = override_model_config(base, R"({"hidden_size": 128, "rope_theta": 5e5})", "[model]");
  EXPECT_EQ(wide.head_dim, 32);
  EXPECT_EQ(wide.rope.theta, 5e5);
  EXPECT_EQ(wide.vocab_size, 320);
  EXPECT_EQ(override_model_config(base, R"({"num_attention_heads": 2})", "[model]").num_key_value_heads, 2);
  EXPECT_EQ(override_model_config(base, R"({"rope_parameters": {"rope_theta": 7.0}})", "[model]").rope.theta, 7.0);
  EXPECT_EQ(override_model_config(base, "{}", "[model]"), base);
  EXPECT_THROW(override_model_config(base, R"({"model_type": "qwen3"})", "[model]"), Error);
  EXPECT_THROW(override_model_config(base, R"({"hiden_size": 3})", "[model]"), Error);
}

TEST(HfConfig, MalformedJsonIsCorrupt) {
  EXPECT_NE(refusal("", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal("{", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal("{} x", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal("\xEF\xBB\xBF{}", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal(R"({"a": 1, "a": 1})", ExitCode::kCorrupt).find("twice"), std::string::npos);
  EXPECT_NE(refusal(R"({"a": 1e400})", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal(R"({"a": NaN})", ExitCode::kCorrupt), "");
  EXPECT_NE(refusal(std::string("{}\0", 3), ExitCode::kCorrupt).find("NUL"), std::string::npos);
  EXPECT_NE(refusal(std::string(1 << 20, '['), ExitCode::kCorrupt).find("nested"), std::string::npos);
  EXPECT_NE(refusal("[1]"), "");
  EXPECT_NE(refusal("{\"model_type\": \"ll\xFF\"}", ExitCode::kCorrupt), "");
}

TEST(HfConfig, EveryFamilyRoundTrips) {
  for (const Family& family : families()) {
    for (const bool tied : {false, true}) {
      Json keys = base_keys(std::string(family.model_type));
      keys["tie_word_embeddings"] = tied;
      keys["eos_token_id"] = {3, 5};
      if (family.qkv_bias == BiasRule::kByKey) keys["attention_bias"] = tied;
      const ModelConfig config = parse(keys);
      EXPECT_EQ(parse_hf_config(write_hf_config(config), "written"), config) << family.model_type;
    }
  }
}

}  // namespace
}  // namespace ida::model
