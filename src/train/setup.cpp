#include "train/setup.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "checkpoint/hf_model.h"
#include "data/document.h"
#include "model/hf_config.h"
#include "text/bpe_trainer.h"

namespace ida::train {
namespace {

using Json = nlohmann::json;

template <typename T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

// The set keys of [model] in Hugging Face spelling.
std::string model_keys(const config::ModelSettings& m) {
  Json json = Json::object();
  put(json, "model_type", m.model_type);
  put(json, "hidden_size", m.hidden_size);
  put(json, "intermediate_size", m.intermediate_size);
  put(json, "num_hidden_layers", m.num_hidden_layers);
  put(json, "num_attention_heads", m.num_attention_heads);
  put(json, "num_key_value_heads", m.num_key_value_heads);
  put(json, "head_dim", m.head_dim);
  put(json, "vocab_size", m.vocab_size);
  put(json, "max_position_embeddings", m.max_position_embeddings);
  put(json, "rms_norm_eps", m.rms_norm_eps);
  put(json, "rope_theta", m.rope_theta);
  put(json, "tie_word_embeddings", m.tie_word_embeddings);
  put(json, "attention_bias", m.attention_bias);
  put(json, "mlp_bias", m.mlp_bias);
  put(json, "sliding_window", m.sliding_window);
  put(json, "use_sliding_window", m.use_sliding_window);
  put(json, "max_window_layers", m.max_window_layers);
  put(json, "initializer_range", m.initializer_range);
  if (m.rope_scaling.any()) {
    Json scaling = Json::object();
    put(scaling, "rope_type", m.rope_scaling.rope_type);
    put(scaling, "factor", m.rope_scaling.factor);
    put(scaling, "low_freq_factor", m.rope_scaling.low_freq_factor);
    put(scaling, "high_freq_factor", m.rope_scaling.high_freq_factor);
    put(scaling, "original_max_position_embeddings", m.rope_scaling.original_max_position_embeddings);
    json["rope_scaling"] = scaling;
  }
  return json.dump();
}

bool given(const config::RunConfig& config, std::string_view path) {
  const config::Source source = config.source_of(path);
  return source == config::Source::kFile || source == config::Source::kSet;
}

text::Tokenizer train_tokenizer(const config::RunConfig& config, const std::string& folder, const Notice& notice) {
  const std::vector<data::Source> sources = data::find_sources(config.data.train);
  std::vector<std::string> texts;
  data::for_each_document(sources, [&](std::string_view text, std::int32_t) { texts.emplace_back(text); });
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::int64_t vocab_size = config.tokenizer.vocab_size.value();
  notice(fmt::format("training a tokenizer of {} tokens on {} documents", vocab_size, views.size()));
  text::Tokenizer tokenizer = text::train_byte_level_bpe(views, {.vocab_size = vocab_size, .progress = {}});
  make_directories(folder);
  tokenizer.save(folder);
  return tokenizer;
}

optim::OptimizerConfig optimizer_config(const config::RunConfig& config) {
  const config::OptimSettings& o = config.optim;
  return {.kind = o.name == config::Optimizer::kAdamW ? ops::OptimizerKind::kAdamW : ops::OptimizerKind::kLion,
          .beta1 = o.betas[0],
          .beta2 = o.betas[1],
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .clip_norm = o.clip_norm,
          .decay = o.decay == config::Decay::kAll ? optim::DecaySet::kAll : optim::DecaySet::kMatrices,
          .state_dtype = config.precision.state == config::StateFormat::kFp32 ? DType::kF32 : DType::kBF16};
}

}  // namespace

std::string run_dir(const config::RunConfig& config) { return config.run.dir + "/" + config.run.name; }

model::ModelConfig resolve_model(const config::RunConfig& config) {
  if (config.model.path) {
    const std::string path = *config.model.path + "/config.json";
    return model::parse_hf_config(read_file(path, 1 << 20), path);
  }
  model::ModelConfig model = model::model_config_from_keys(model_keys(config.model), "[model]");
  if (model.vocab_size == 0 && config.tokenizer.path)
    model.vocab_size = text::Tokenizer::load(*config.tokenizer.path).vocab_size();
  if (config.data.seq_len > model.max_position_embeddings)
    fail_usage("[data] seq_len = {} is longer than the model's max_position_embeddings = {}; lower one or raise the other",
               config.data.seq_len, model.max_position_embeddings);
  return model;
}

text::Tokenizer resolve_tokenizer(const config::RunConfig& config, const Notice& notice) {
  if (config.tokenizer.path) return text::Tokenizer::load(*config.tokenizer.path);
  if (config.model.path) return text::Tokenizer::load(*config.model.path);
  const std::string folder = run_dir(config) + "/tokenizer";
  if (path_exists(folder + "/tokenizer.json")) return text::Tokenizer::load(folder);
  return train_tokenizer(config, folder, notice);
}

void match_vocabulary(const config::RunConfig& config, const text::Tokenizer& tokenizer, model::ModelConfig& model) {
  const std::int64_t size = tokenizer.vocab_size();
  if (config.model.path) {
    // A published model may have more rows than its tokenizer has tokens.
    if (size > model.vocab_size)
      fail_usage("[tokenizer] has {} tokens but the model of {} has vocab_size = {}; give the model's own tokenizer", size,
                 *config.model.path, model.vocab_size);
  } else if (model.vocab_size != size) {
    if (given(config, "model.vocab_size"))
      fail_usage("[model] vocab_size = {} but the tokenizer has {} tokens; set both to the same, or leave vocab_size out",
                 model.vocab_size, size);
    model.vocab_size = size;
  }
  if (const auto bos = tokenizer.bos_id()) model.bos_token_id = *bos;
  if (const auto eos = tokenizer.eos_id(); eos && model.eos_token_ids.empty()) model.eos_token_ids = {*eos};
}

EngineSpec engine_spec(const config::RunConfig& config, const model::ModelConfig& model) {
  EngineSpec spec{.model = model,
                  .recipe = precision::recipe_by_name(config.precision.recipe),
                  .optimizer = optimizer_config(config),
                  .seq_len = config.data.seq_len};
  spec.model.dtype = spec.recipe.compute;
  spec.graphs = config.device.graphs;
  spec.fallback_is_error = config.evidence.on_fallback == config::OnFallback::kError;
  spec.deterministic = config.device.deterministic;
  switch (config.evidence.engine) {
    case config::EngineKind::kNative: spec.engine_policy = precision::EnginePolicy::kNative; break;
    case config::EngineKind::kEmulated: spec.engine_policy = precision::EnginePolicy::kEmulated; break;
    case config::EngineKind::kEither: spec.engine_policy = precision::EnginePolicy::kEither; break;
  }
  switch (config.train.recompute) {
    case config::Recompute::kNone: spec.recompute = model::Recompute::kNone; break;
    case config::Recompute::kMlp: spec.recompute = model::Recompute::kMlp; break;
    case config::Recompute::kBlock: spec.recompute = model::Recompute::kBlock; break;
  }
  switch (config.precision.backward_scale) {
    case config::BackwardScale::kMicroBatchMean: spec.backward_scale = BackwardScale::kMicroBatchMean; break;
    case config::BackwardScale::kGlobalMean: spec.backward_scale = BackwardScale::kGlobalMean; break;
    case config::BackwardScale::kSum: spec.backward_scale = BackwardScale::kSum; break;
  }
  return spec;
}

std::int64_t global_batch_rows(const config::RunConfig& config) {
  const std::int64_t tokens = config.train.global_batch_tokens;
  const std::int64_t seq_len = config.data.seq_len;
  if (tokens % seq_len != 0)
    fail_usage("[train] global_batch_tokens = {} is no multiple of data.seq_len = {}; use {} or {}", tokens, seq_len,
               std::max<std::int64_t>(tokens / seq_len, 1) * seq_len, (tokens / seq_len + 1) * seq_len);
  return tokens / seq_len;
}

checkpoint::Retention retention_of(const config::TrainSettings& train) {
  return {.keep_last = train.keep_last, .keep_every = train.keep_every, .keep_best = train.keep_best};
}

std::int64_t memory_limit(const config::RunConfig& config, const runtime::DeviceInfo& device) {
  return config::memory_limit_bytes(config).value_or(device.memory_bytes);
}

std::int64_t choose_micro_batch_rows(const config::RunConfig& config, const EngineSpec& spec,
                                     const runtime::DeviceInfo& device, const ops::Backend& backend) {
  const std::int64_t rows = global_batch_rows(config);
  const std::int64_t asked = config.train.micro_batch_sequences;
  if (asked > 0) {
    if (rows % asked != 0)
      fail_usage("[train] micro_batch_sequences = {} does not divide the {} sequences of global_batch_tokens = {}", asked,
                 rows, config.train.global_batch_tokens);
    return asked;
  }
  const std::int64_t limit = memory_limit(config, device);
  for (std::int64_t candidate = rows; candidate >= 1; --candidate) {
    if (rows % candidate != 0) continue;
    EngineSpec trial = spec;
    trial.micro_batch_rows = candidate;
    const MemoryPlan needed = plan_step(trial, device, backend).memory;
    if (limit <= 0 || needed.device_bytes() <= limit) return candidate;
    if (candidate == 1)
      fail_runtime(
          "[memory] one sequence of {} tokens needs {} but the limit is {:.1f} MiB: lower data.seq_len, set "
          "train.recompute = \"block\", or raise device.memory_limit",
          spec.seq_len, needed.to_string(), mib(limit));
  }
  return 1;
}

optim::Schedule schedule_of(const config::RunConfig& config) {
  optim::Schedule schedule{.peak_lr = config.optim.lr,
                           .min_lr_frac = config.optim.min_lr_ratio,
                           .warmup_steps = config.optim.warmup_steps,
                           .wsd_decay_frac = config.optim.wsd_decay_fraction,
                           .total_steps = config::total_steps(config)};
  switch (config.optim.schedule) {
    case config::Schedule::kWsd: schedule.kind = optim::ScheduleKind::kWsd; break;
    case config::Schedule::kCosine: schedule.kind = optim::ScheduleKind::kCosine; break;
    case config::Schedule::kLinear: schedule.kind = optim::ScheduleKind::kLinear; break;
    case config::Schedule::kConstant: schedule.kind = optim::ScheduleKind::kConstant; break;
  }
  return schedule;
}

data::PackingOptions packing_of(const config::RunConfig& config) {
  data::PackingOptions options;
  options.seq_len = config.data.seq_len;
  options.shuffle = config.data.shuffle;
  options.seed = config.run.seed;
  options.packing = config.data.packing == config::Packing::kStream ? data::Packing::kStream : data::Packing::kDocuments;
  switch (config.data.long_documents) {
    case config::LongDocuments::kSplit: options.long_documents = data::LongDocuments::kSplit; break;
    case config::LongDocuments::kTruncate: options.long_documents = data::LongDocuments::kTruncate; break;
    case config::LongDocuments::kDrop: options.long_documents = data::LongDocuments::kDrop; break;
  }
  return options;
}

data::BuildOptions build_options_of(const config::RunConfig& config) {
  data::BuildOptions options;
  options.mask = config.data.mask;
  return options;
}

}  // namespace ida::train
