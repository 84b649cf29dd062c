#include "train/plan_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/shard_index.h"
#include "data/source.h"
#include "evidence/ledger.h"
#include "train/recorder.h"
#include "train/setup.h"

namespace ida::train {
namespace {

// Program, libraries, thread stacks, generated kernels: 20 MiB measured on x86-64 with two threads; and a tokenizer with
// what loading it leaves behind, 600 to 800 bytes a token.
constexpr std::int64_t kProgramBytes = std::int64_t{24} << 20;
constexpr std::int64_t kTokenizerBytesPerToken = 800;

// Text of an average token in a byte-level BPE, for data that is not tokenized yet; errs to more tokens.
constexpr std::int64_t kBytesPerToken = 3;

// The tokenizer that is already there; one that has yet to be trained is not.
std::optional<text::Tokenizer> existing_tokenizer(const config::RunConfig& config) {
  if (config.tokenizer.path) return text::Tokenizer::load(*config.tokenizer.path);
  if (config.model.path) return text::Tokenizer::load(*config.model.path);
  const std::string folder = run_dir(config) + "/tokenizer";
  if (is_regular_file(folder + "/tokenizer.json")) return text::Tokenizer::load(folder);
  return std::nullopt;
}

std::int64_t sample_prompt_tokens(const config::RunConfig& config, const std::optional<text::Tokenizer>& tokenizer) {
  const std::string& prompt = config.train.sample_prompt;
  const auto tokens = static_cast<std::int64_t>(tokenizer ? tokenizer->encode(prompt, true).size() : prompt.size());
  return std::max<std::int64_t>(tokens, 1);
}

// Keys a query sees on average in a row of one document.
double mean_keys(std::int64_t seq_len, std::int64_t window) {
  const auto t = static_cast<double>(seq_len);
  const double w = window > 0 ? std::min(static_cast<double>(window), t) : t;
  return (w * (w + 1.0) / 2.0 + (t - w) * w) / t;
}

double attention_flop_per_token(const model::ModelConfig& model, std::int64_t seq_len) {
  constexpr double kProducts = 2.0 + 5.0;  // forward: scores, values; backward: scores again, dV, dP, dQ, dK
  double flop = 0.0;
  for (const std::int64_t window : model.layer_window)
    flop += kProducts * 2.0 * static_cast<double>(model.q_cols()) * mean_keys(seq_len, window);
  return flop;
}

// What a checkpoint holds in memory while it is written in the background (trainer's rule for keeping that copy).
std::int64_t staging_bytes(const EngineSpec& spec, std::int64_t num_parameters, std::int64_t arena_bytes,
                           std::int64_t limit) {
  const bool own_master = spec.recipe.compute != DType::kF32;
  const std::int64_t moments = spec.optimizer.kind == ops::OptimizerKind::kAdamW ? 2 : 1;
  const std::int64_t bytes = num_parameters * (dtype_size_bytes(spec.recipe.compute) + (own_master ? 4 : 0) +
                                               moments * dtype_size_bytes(spec.optimizer.state_dtype));
  return arena_bytes + bytes <= limit / 2 ? bytes : 0;
}

std::int64_t bytes_of(const std::vector<std::string>& files) {
  std::int64_t bytes = 0;
  for (const std::string& file : files)
    bytes += is_regular_file(file) ? static_cast<std::int64_t>(file_size_bytes(file)) : 0;
  return bytes;
}

std::int64_t source_bytes(const std::vector<std::string>& entries) {
  std::int64_t bytes = 0;
  for (const data::Source& source : data::find_sources(entries))
    for (const data::SourceFile& file : source.files) bytes += static_cast<std::int64_t>(file_size_bytes(file.path));
  return bytes;
}

// Token shards are mapped and read as a whole when they are opened.
std::int64_t dataset_bytes(const config::RunConfig& config, const std::vector<std::string>& entries, const char* name,
                           std::int64_t vocab_size, bool& estimated) {
  if (entries.empty()) return 0;
  const std::string shard = run_dir(config) + "/data/" + name + ".shard";
  if (is_regular_file(shard)) return bytes_of(data::shard_files(shard));
  estimated = true;
  return source_bytes(entries) / kBytesPerToken * (vocab_size <= 65536 ? 2 : 4);
}

void add_memory(PlanReport& report, const config::RunConfig& config, const EngineSpec& spec, const StepPlan& plan) {
  for (int c = 0; c < runtime::kNumMemoryClasses; ++c) {
    const std::int64_t bytes = plan.memory.by_class[static_cast<std::size_t>(c)];
    if (bytes > 0)
      report.memory.push_back({std::string(runtime::memory_class_name(static_cast<runtime::MemoryClass>(c))), bytes, ""});
  }
  report.arena_bytes = plan.memory.total_bytes;
  report.total_bytes = report.arena_bytes;
  const bool own_memory = plan.memory.outside_bytes > 0;  // of the device
  const auto add = [&](const char* name, std::int64_t bytes, const char* note, bool on_host) {
    if (bytes > 0) report.memory.push_back({name, bytes, note, on_host});
    if (!on_host) report.total_bytes += bytes;
  };
  add("outside", plan.memory.outside_bytes, "context, kernels and libraries on the device", false);
  add("checkpoint", staging_bytes(spec, report.parameters, report.arena_bytes, report.limit_bytes),
      "copy of the state while it is written in the background", own_memory);
  bool estimated = false;
  const std::int64_t data_bytes = dataset_bytes(config, config.data.train, "train", spec.model.vocab_size, estimated) +
                                  dataset_bytes(config, config.data.valid, "valid", spec.model.vocab_size, estimated);
  add("data", data_bytes, estimated ? "token shards, estimated from the size of the text" : "token shards", own_memory);
  add("process", kProgramBytes + kTokenizerBytesPerToken * spec.model.vocab_size,
      "program, libraries, tokenizer, thread stacks", own_memory);
}

// tokens/s of the newest finished start of this very configuration.
void add_time(PlanReport& report, const config::RunConfig& config) {
  const std::string path = config.run.dir + "/ledger.sqlite";
  report.tokens_per_s_source = "no earlier start of this configuration in " + path;
  if (!is_regular_file(path)) return;
  try {
    evidence::Ledger ledger(path);
    const std::string hash = config::config_hash(config);
    for (const evidence::RunRow& row : ledger.runs()) {
      if (row.config_hash != hash) continue;
      const nlohmann::json summary = nlohmann::json::parse(row.summary_json, nullptr, false);
      if (!summary.is_object()) continue;
      const double tokens = summary.value("tokens", 0.0);
      const double elapsed_s = summary.value("elapsed_s", 0.0);
      if (!(tokens > 0.0 && elapsed_s > 0.0)) continue;
      report.tokens_per_s = tokens / elapsed_s;
      report.tokens_per_s_source = fmt::format("run {} of {} ({})", row.id, path, row.device);
    }
  } catch (const std::exception& error) {
    report.tokens_per_s_source = error.what();
  }
  if (report.tokens_per_s) report.eta_s = static_cast<double>(report.tokens) / *report.tokens_per_s;
}

}  // namespace

PlanReport plan_report(const config::RunConfig& config, const runtime::DeviceInfo& device, const ops::Backend& backend) {
  PlanReport report;
  model::ModelConfig model = resolve_model(config);
  const std::optional<text::Tokenizer> tokenizer = existing_tokenizer(config);
  if (tokenizer) {
    match_vocabulary(config, *tokenizer, model);
  } else {
    report.notes.push_back(
        fmt::format("the tokenizer is not trained yet: vocab_size = {} is what was asked for", model.vocab_size));
  }
  EngineSpec spec = engine_spec(config, model);
  if (config.train.sample_every > 0) {
    const std::vector<std::int32_t> prompt(static_cast<std::size_t>(sample_prompt_tokens(config, tokenizer)));
    spec.sample_shape = eval::generate_shape({prompt}, config.train.sample_tokens);
    spec.max_positions = spec.sample_shape.capacity;
  }
  spec.micro_batch_rows = choose_micro_batch_rows(config, spec, device, backend);
  const StepPlan plan = plan_step(spec, device, backend);

  report.run_dir = run_dir(config);
  report.recipe = spec.recipe.name;
  report.device = device.name;
  report.parameters = model::build_param_table(spec.model).num_parameters;
  report.steps = config::total_steps(config);
  report.tokens = report.steps * config.train.global_batch_tokens;
  report.seq_len = spec.seq_len;
  report.global_batch_sequences = global_batch_rows(config);
  report.micro_batch_sequences = spec.micro_batch_rows;
  report.gemm_flop_per_token = plan.micro_batch_gemm_flops / static_cast<double>(spec.micro_batch_tokens());
  report.attention_flop_per_token = attention_flop_per_token(spec.model, spec.seq_len);
  report.limit_bytes = memory_limit(config, device);
  add_memory(report, config, spec, plan);
  add_time(report, config);
  report.sites = plan_facts(plan.sites);
  return report;
}

}  // namespace ida::train
