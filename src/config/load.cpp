#include "config/load.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "config/presets.h"
#include "config/setting.h"
#include "config/size_text.h"
#include "config/toml_reader.h"

namespace ida::config {
namespace {

template <typename T, typename U>
void derive(RunConfig& config, std::string_view path, T& member, const U& value) {
  member = value;
  config.sources[std::string(path)] = Source::kDerived;
}

template <typename T, typename U>
void derive_if_unset(RunConfig& config, std::string_view path, std::optional<T>& member, const U& value) {
  if (!member) derive(config, path, member, value);
}

// Sizes of the preset that were not set one by one.
void derive_preset(RunConfig& config, const Preset& preset) {
  RunSettings shape;
  shape.model = preset.model;
  for (const Setting& setting : all_settings()) {
    if (!setting.path.starts_with("model.")) continue;
    const ValueRef from = value_of(setting, shape);
    std::visit(
        [&]<typename Member>(Member to) {
          if constexpr (!std::is_same_v<Member, EnumRef>) {
            if constexpr (requires { to->has_value(); }) {
              const Member source = std::get<Member>(from);
              if (source->has_value() && !to->has_value()) derive(config, setting.path, *to, *source);
            }
          }
        },
        value_of(setting, config));
  }
}

bool can_train_vocabulary(std::int64_t vocab_size) {
  RunSettings settings;
  settings.tokenizer.vocab_size = vocab_size;
  const Setting& setting = *find_setting("tokenizer.vocab_size");
  return value_refusal(setting, value_of(setting, settings)).empty();
}

void derive_model(RunConfig& config) {
  ModelSettings& model = config.model;
  if (model.path) return;
  const Preset* preset = model.preset ? find_preset(*model.preset) : nullptr;
  if (preset != nullptr) derive_preset(config, *preset);
  derive_if_unset(config, "model.model_type", model.model_type, "llama");
  derive_if_unset(config, "model.tie_word_embeddings", model.tie_word_embeddings, false);
  derive_if_unset(config, "model.max_position_embeddings", model.max_position_embeddings, config.data.seq_len);
  TokenizerSettings& tokenizer = config.tokenizer;
  if (tokenizer.path) return;
  if (model.vocab_size && !tokenizer.vocab_size && can_train_vocabulary(*model.vocab_size)) {
    derive(config, "tokenizer.vocab_size", tokenizer.vocab_size, *model.vocab_size);
  }
  if (tokenizer.vocab_size) derive_if_unset(config, "model.vocab_size", model.vocab_size, *tokenizer.vocab_size);
}

void derive_optim(RunConfig& config) {
  OptimSettings& optim = config.optim;
  if (config.source_of("optim.betas") == Source::kDefault && optim.name == Optimizer::kLion) {
    derive(config, "optim.betas", optim.betas, std::array<double, 2>{0.9, 0.99});
  }
  const bool length_known = config.train.steps || config.train.tokens;
  if (config.source_of("optim.warmup_steps") == Source::kDefault && length_known) {
    const std::int64_t at_most = total_steps(config) / 10;
    if (optim.warmup_steps > at_most) derive(config, "optim.warmup_steps", optim.warmup_steps, at_most);
  }
}

}  // namespace

RunConfig read_run_config(std::string_view toml_text, std::string_view origin, std::span<const std::string> overrides) {
  if (toml_text.size() > static_cast<std::size_t>(kMaxConfigBytes)) {
    fail_usage("{}: {} bytes is too long for a configuration; at most {}", origin, toml_text.size(), kMaxConfigBytes);
  }
  RunConfig config;
  read_file_text(toml_text, origin, config);
  for (const std::string& text : overrides) {
    if (text.size() > static_cast<std::size_t>(kMaxConfigBytes)) fail_usage("--set: {} bytes is too long", text.size());
    read_override(text, config);
  }
  derive_model(config);
  derive_optim(config);
  return config;
}

RunConfig parse_run_config(std::string_view toml_text, std::string_view origin, std::span<const std::string> overrides) {
  RunConfig config = read_run_config(toml_text, origin, overrides);
  check_complete(config, origin);
  check_implemented(config);
  return config;
}

RunConfig load_run_config(const std::filesystem::path& toml_file, std::span<const std::string> overrides) {
  const std::string path = toml_file.string();
  if (!is_regular_file(path)) {
    fail_usage("{}: {}; expected a TOML file", printable(path), path_exists(path) ? "not a regular file" : "no such file");
  }
  const std::uint64_t size_bytes = file_size_bytes(path);
  if (size_bytes > static_cast<std::uint64_t>(kMaxConfigBytes)) {
    fail_usage("{}: {} bytes is too long for a configuration; at most {}", printable(path), size_bytes, kMaxConfigBytes);
  }
  return parse_run_config(read_file(path, kMaxConfigBytes), printable(path), overrides);
}

std::int64_t total_steps(const RunConfig& config) {
  if (config.train.steps) return *config.train.steps;
  const std::int64_t batch = config.train.global_batch_tokens;
  return config.train.tokens ? (*config.train.tokens + batch - 1) / batch : 0;
}

std::optional<std::int64_t> memory_limit_bytes(const RunConfig& config) {
  if (config.device.memory_limit.empty()) return {};
  return parse_size_bytes(config.device.memory_limit);
}

}  // namespace ida::config
