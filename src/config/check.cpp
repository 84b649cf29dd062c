// Checks that need more than one setting.
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "config/load.h"
#include "config/presets.h"
#include "config/setting.h"

namespace ida::config {
namespace {

bool given(const RunConfig& config, std::string_view path) {
  const Source source = config.source_of(path);
  return source == Source::kFile || source == Source::kSet;
}

void check_model_source(const RunConfig& config, std::string_view origin) {
  const ModelSettings& model = config.model;
  if (model.preset && model.path) {
    fail_usage("{}: model.preset and model.path are both set; keep one", origin);
  }
  if (model.path) {
    for (const Setting& setting : all_settings()) {
      const bool size = setting.path.starts_with("model.") && setting.path != "model.path";
      if (!size || !given(config, setting.path)) continue;
      fail_usage("{}: {} is set beside model.path, whose config.json brings it; remove one", origin, setting.path);
    }
  }
  const Preset* preset = model.preset ? find_preset(*model.preset) : nullptr;
  if (preset != nullptr && !preset->unavailable.empty()) {
    fail_usage("{}: model.preset = \"{}\": {}", origin, preset->name, preset->unavailable);
  }
  const auto& limit = model.max_position_embeddings;
  if (limit && config.data.seq_len > *limit) {
    fail_usage("{}: data.seq_len = {} is longer than model.max_position_embeddings = {}; lower one or raise the other",
               origin, config.data.seq_len, *limit);
  }
}

void check_tokenizer(const RunConfig& config, std::string_view origin) {
  const TokenizerSettings& tokenizer = config.tokenizer;
  const bool tokenizer_known = tokenizer.path || config.model.path;
  if (tokenizer.vocab_size && tokenizer_known) {
    fail_usage("{}: tokenizer.vocab_size trains a tokenizer, but {} already names one; keep one", origin,
               tokenizer.path ? "tokenizer.path" : "model.path");
  }
  if (!tokenizer.vocab_size && !tokenizer_known && config.model.vocab_size) {
    fail_usage("{}: model.vocab_size = {} without tokenizer.path trains a tokenizer of that size: expected {}", origin,
               *config.model.vocab_size, expected_text(*find_setting("tokenizer.vocab_size")));
  }
  if (!tokenizer.vocab_size) return;
  if (config.model.vocab_size && *config.model.vocab_size != *tokenizer.vocab_size) {
    fail_usage("{}: model.vocab_size = {}{} and tokenizer.vocab_size = {} disagree; set both to the same", origin,
               *config.model.vocab_size, given(config, "model.vocab_size") ? "" : " of the preset", *tokenizer.vocab_size);
  }
}

void check_data(const RunConfig& config, std::string_view origin) {
  const DataSettings& data = config.data;
  if (data.weights.empty()) return;
  if (data.weights.size() != data.train.size()) {
    fail_usage("{}: data.weights has {} entries and data.train {}; expected one weight per source", origin,
               data.weights.size(), data.train.size());
  }
  if (std::accumulate(data.weights.begin(), data.weights.end(), 0.0) <= 0) {
    fail_usage("{}: data.weights are all 0; expected at least one above", origin);
  }
}

void check_batch(const RunConfig& config, std::string_view origin) {
  const TrainSettings& train = config.train;
  if (train.steps && train.tokens) fail_usage("{}: train.steps and train.tokens are both set; keep one", origin);
  const std::int64_t seq_len = config.data.seq_len;
  if (train.global_batch_tokens % seq_len != 0) {
    const std::int64_t nearest = std::max<std::int64_t>(1, train.global_batch_tokens / seq_len) * seq_len;
    fail_usage("{}: train.global_batch_tokens = {} is no multiple of data.seq_len = {}; the nearest below is {}", origin,
               train.global_batch_tokens, seq_len, nearest);
  }
  const std::int64_t sequences = train.global_batch_tokens / seq_len;
  if (sequences % config.parallel.data != 0) {
    fail_usage("{}: parallel.data = {} does not divide the {} sequences of a batch", origin, config.parallel.data,
               sequences);
  }
  const std::int64_t micro = train.micro_batch_sequences;
  if (micro > 0 && (sequences / config.parallel.data) % micro != 0) {
    fail_usage("{}: train.micro_batch_sequences = {} does not divide the {} sequences of a batch{}", origin, micro,
               sequences / config.parallel.data, config.parallel.data > 1 ? " on one replica" : "");
  }
  if ((train.steps || train.tokens) && config.optim.warmup_steps > total_steps(config)) {
    fail_usage("{}: optim.warmup_steps = {} is longer than the run of {} steps", origin, config.optim.warmup_steps,
               total_steps(config));
  }
  const std::size_t stages = config.parallel.split.layers.size();
  if (stages != 0 && static_cast<std::int64_t>(stages) != config.parallel.pipeline) {
    fail_usage("{}: parallel.split has {} entries, parallel.pipeline = {}; expected one entry per stage", origin, stages,
               config.parallel.pipeline);
  }
}

void check_phases(const RunConfig& config, std::string_view origin) {
  for (const PrecisionPhase& phase : config.precision.phases) {
    if (phase.from.has_value() == phase.when.has_value()) {
      fail_usage("{}: [[precision.phase]]: expected one of from and when, got {}", origin, phase.from ? "both" : "none");
    }
  }
}

bool is_empty(const ValueRef& value) {
  const std::optional<std::string> text = to_toml(value);
  return !text || *text == "\"\"" || *text == "[]";
}

std::vector<std::string> missing_model_settings(const RunConfig& config) {
  const ModelSettings& model = config.model;
  std::vector<std::string> missing;
  if (model.preset || model.path) return missing;
  const std::pair<const std::optional<std::int64_t>&, const char*> sizes[] = {
      {model.hidden_size, "model.hidden_size"},
      {model.intermediate_size, "model.intermediate_size"},
      {model.num_hidden_layers, "model.num_hidden_layers"},
      {model.num_attention_heads, "model.num_attention_heads"}};
  for (const auto& [value, path] : sizes) {
    if (!value) missing.emplace_back(path);
  }
  if (missing.size() == std::size(sizes)) return {"a model (model.preset, model.path or model.hidden_size and the like)"};
  return missing;
}

void check_missing(const RunConfig& config, std::string_view origin) {
  RunSettings settings = config;
  std::vector<std::string> missing;
  for (const Setting& setting : all_settings()) {
    if (setting.required && is_empty(value_of(setting, settings))) missing.emplace_back(setting.path);
  }
  for (const TableList& list : all_table_lists()) {
    for (std::size_t i = 0; i < list.size(settings); ++i) {
      for (const Setting& field : list.fields) {
        if (field.required && is_empty(field.ref(list.element(settings, i)))) {
          missing.push_back(fmt::format("{} of [[{}]] number {}", field.path, list.path, i + 1));
        }
      }
    }
  }
  if (!config.train.steps && !config.train.tokens) missing.emplace_back("train.steps or train.tokens");
  std::ranges::move(missing_model_settings(config), std::back_inserter(missing));
  const bool tokenizer_known = config.tokenizer.path || config.tokenizer.vocab_size || config.model.path;
  if (missing.empty() && !tokenizer_known) missing.emplace_back("tokenizer.path, tokenizer.vocab_size or model.vocab_size");
  if (!missing.empty()) fail_usage("{}: missing {}", origin, fmt::join(missing, "; "));
}

struct NameOf {
  std::string operator()(const std::string* text) const { return *text; }
  std::string operator()(const EnumRef& value) const { return std::string(value.names[*value.index]); }
  template <typename T>
  std::string operator()(const T*) const {
    return "";
  }
};

}  // namespace

void check_complete(const RunConfig& config, std::string_view origin) {
  check_model_source(config, origin);
  check_tokenizer(config, origin);
  check_batch(config, origin);
  if (!config.data.train.empty()) check_data(config, origin);
  check_phases(config, origin);
  check_missing(config, origin);
}

void check_implemented(const RunConfig& config) {
  RunSettings settings = config;
  for (const Setting& setting : all_settings()) {
    if (setting.implemented.empty()) continue;
    const std::string name = std::visit(NameOf(), value_of(setting, settings));
    if (std::ranges::find(setting.implemented, name) != setting.implemented.end()) continue;
    fail_gate("{} = \"{}\" is not available in this build; available: {}", setting.path, name,
              fmt::join(setting.implemented.begin(), setting.implemented.end(), ", "));
  }
  for (const TableList& list : all_table_lists()) {
    if (list.size(settings) > 0) fail_gate("[[{}]] is not available in this build; remove it", list.path);
  }
  const ParallelSettings& parallel = config.parallel;
  if (parallel.data > 1 || parallel.pipeline > 1 || !parallel.split.layers.empty()) {
    fail_gate(
        "parallel: data = {}, pipeline = {}, split = {}: this build runs on one device only; use data = 1, "
        "pipeline = 1, split = \"auto\"",
        parallel.data, parallel.pipeline, parallel.split.layers.empty() ? "\"auto\"" : "[...]");
  }
}

}  // namespace ida::config
