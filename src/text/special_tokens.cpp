#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

namespace ida::text {
namespace {

constexpr std::array<std::string_view, 4> kBosNames = {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>"};
constexpr std::array<std::string_view, 6> kEosNames = {"<|endoftext|>", "</s>",       "<|end_of_text|>",
                                                       "<eos>",         "<|im_end|>", "<|eot_id|>"};
constexpr std::array<std::string_view, 4> kPadNames = {"<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>"};

// A token's name is a string, or an object with its content.
std::string token_name(const JsonPart& json, std::string_view key) {
  const nlohmann::json* value = json.find(key);
  if (value == nullptr) return {};
  return value->is_object() ? JsonPart(*value, json.where()).string("content") : json.string(key);
}

std::optional<bool> optional_flag(const JsonPart& json, std::string_view key) {
  return json.find(key) == nullptr ? std::nullopt : std::optional(json.flag(key, false));
}

std::int64_t id_from_key(const std::string& key, const std::string& where) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size()) {
    fail_corrupt("{}: expected a token id as key, got `{}`", where, printable_excerpt(key));
  }
  return id;
}

template <std::size_t kCount>
std::optional<std::int32_t> first_known(const TokenizerParts& parts, const std::array<std::string_view, kCount>& names) {
  for (const std::string_view name : names) {
    if (const auto id = parts.id_of(name)) return id;
  }
  return std::nullopt;
}

// The token the configuration names, which must exist.
std::optional<std::int32_t> named_token(const TokenizerParts& parts, const std::string& name, std::string_view key,
                                        std::string_view origin) {
  if (name.empty()) return std::nullopt;
  const auto id = parts.id_of(name);
  if (!id) fail_corrupt("{}: {} of tokenizer_config.json is `{}`, which is no token", origin, key, printable_excerpt(name));
  return id;
}

// Classes of the transformers package that build their post-processor from add_bos_token and add_eos_token, whatever
// tokenizer.json says.
bool flags_rule(const std::string& tokenizer_class) {
  return tokenizer_class.starts_with("LlamaTokenizer") || tokenizer_class.starts_with("CodeLlamaTokenizer") ||
         tokenizer_class.starts_with("GemmaTokenizer");
}

void settle_side(std::vector<std::int32_t>& side, std::optional<bool> flag, std::optional<std::int32_t> token, bool rule) {
  if (!flag) return;
  if (rule) side.clear();
  if (*flag && side.empty() && token) side = {*token};
}

}  // namespace

AddedToken read_added_token(const JsonPart& json, std::int64_t id) {
  if (id < 0 || id >= kMaxTokenId) {
    fail_corrupt("{}: token id {}, expected 0 to {}", json.where(), id, kMaxTokenId - 1);
  }
  AddedToken token;
  token.id = static_cast<std::int32_t>(id);
  token.content = json.string("content");
  token.single_word = json.flag("single_word", false);
  token.lstrip = json.flag("lstrip", false);
  token.rstrip = json.flag("rstrip", false);
  token.special = json.flag("special", false);
  token.normalized = json.flag("normalized", !token.special);
  return token;
}

TokenizerConfig read_tokenizer_config(std::string_view config_json, std::string_view origin) {
  const std::string where = fmt::format("{}: tokenizer_config.json", origin);
  const nlohmann::json json = parse_json(config_json, where);
  const JsonPart root(json, where);
  TokenizerConfig config;
  config.bos_token = token_name(root, "bos_token");
  config.eos_token = token_name(root, "eos_token");
  config.pad_token = token_name(root, "pad_token");
  config.add_bos_token = optional_flag(root, "add_bos_token");
  config.add_eos_token = optional_flag(root, "add_eos_token");
  config.tokenizer_class = root.string_or("tokenizer_class", "");
  if (const nlohmann::json* added = root.find("added_tokens_decoder")) {
    if (!added->is_object()) root.corrupt("added_tokens_decoder", "an object of id: token");
    for (const auto& [key, value] : added->items()) {
      config.added_tokens.push_back(
          read_added_token(JsonPart(value, where + ".added_tokens_decoder"), id_from_key(key, where)));
    }
    const auto by_id = [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; };
    std::sort(config.added_tokens.begin(), config.added_tokens.end(), by_id);
  }
  return config;
}

void resolve_special_tokens(TokenizerParts& parts, const TokenizerConfig& config, std::string_view origin) {
  parts.bos = named_token(parts, config.bos_token, "bos_token", origin);
  parts.eos = named_token(parts, config.eos_token, "eos_token", origin);
  parts.pad = named_token(parts, config.pad_token, "pad_token", origin);
  if (!parts.bos && !parts.around.before.empty()) parts.bos = parts.around.before.front();
  if (!parts.bos) parts.bos = first_known(parts, kBosNames);
  if (!parts.eos) parts.eos = first_known(parts, kEosNames);
  if (!parts.pad) parts.pad = first_known(parts, kPadNames);
  const bool rule = flags_rule(config.tokenizer_class);
  settle_side(parts.around.before, config.add_bos_token, parts.bos, rule);
  settle_side(parts.around.after, config.add_eos_token, parts.eos, rule);
  for (const auto* side : {&parts.around.before, &parts.around.after}) {
    for (const std::int32_t id : *side) {
      if (!parts.token_of(id)) fail_corrupt("{}: post_processor adds id {}, which is no token", origin, id);
    }
  }
}

std::string make_tokenizer_config(const TokenizerParts& parts) {
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const auto put = [&](const char* key, std::optional<std::int32_t> id) {
    if (id) config[key] = *parts.token_of(*id);
  };
  put("bos_token", parts.bos);
  put("eos_token", parts.eos);
  put("pad_token", parts.pad);
  return config.dump(2) + "\n";
}

}  // namespace ida::text
