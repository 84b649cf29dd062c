// The settings of a run as typed values. A member's initialiser is its default; name, unit, help, range and effect are
// declared once in setting_table.cpp. Units follow the name: sizes in tokens, steps or sequences, fractions in 0..1.
//
// Read one with load_run_config (load.h). A RunConfig built by hand holds the defaults but neither a preset's sizes nor
// anything else marked "derived" there.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/enums.h"

namespace ida::config {

struct RunSection {
  std::string name;
  std::string dir = "runs";
  std::uint64_t seed = 42;
  bool operator==(const RunSection&) const = default;
};

// Keys of `rope_scaling` as Hugging Face spells them; which are read depends on rope_type.
struct RopeScaling {
  std::optional<std::string> rope_type;
  std::optional<double> factor;
  std::optional<double> low_freq_factor;
  std::optional<double> high_freq_factor;
  std::optional<std::int64_t> original_max_position_embeddings;
  bool operator==(const RopeScaling&) const = default;
  bool any() const { return *this != RopeScaling{}; }
};

// Exactly one source: `preset`, `path` (a Hugging Face folder), or sizes. An empty optional was not set: its value is
// the family's (head_dim = hidden_size / num_attention_heads, num_key_value_heads = num_attention_heads, ...).
struct ModelSettings {
  std::optional<std::string> preset = {};
  std::optional<std::string> path = {};
  std::optional<std::string> model_type = {};
  std::optional<std::int64_t> hidden_size = {};
  std::optional<std::int64_t> intermediate_size = {};
  std::optional<std::int64_t> num_hidden_layers = {};
  std::optional<std::int64_t> num_attention_heads = {};
  std::optional<std::int64_t> num_key_value_heads = {};
  std::optional<std::int64_t> head_dim = {};
  std::optional<std::int64_t> vocab_size = {};
  std::optional<std::int64_t> max_position_embeddings = {};
  std::optional<double> rms_norm_eps = {};
  std::optional<double> rope_theta = {};
  std::optional<bool> tie_word_embeddings = {};
  std::optional<bool> attention_bias = {};
  std::optional<bool> mlp_bias = {};
  std::optional<std::int64_t> sliding_window = {};
  std::optional<bool> use_sliding_window = {};
  std::optional<std::int64_t> max_window_layers = {};
  std::optional<double> initializer_range = {};
  RopeScaling rope_scaling = {};
  bool operator==(const ModelSettings&) const = default;
};

struct TokenizerSettings {
  std::optional<std::string> path;
  std::optional<std::int64_t> vocab_size;  // size of the BPE trained on data.train when no path is given
  bool operator==(const TokenizerSettings&) const = default;
};

struct DataSettings {
  std::vector<std::string> train;
  std::vector<std::string> valid;
  std::int64_t seq_len = 1024;
  Packing packing = Packing::kDocuments;
  LossMask mask = LossMask::kAll;
  bool shuffle = true;
  std::vector<double> weights;  // one per entry of train; empty: by size
  LongDocuments long_documents = LongDocuments::kSplit;
  bool operator==(const DataSettings&) const = default;
};

struct OptimSettings {
  Optimizer name = Optimizer::kAdamW;
  double lr = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};  // of adamw; lion derives {0.9, 0.99}
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: no clipping
  Schedule schedule = Schedule::kWsd;
  std::int64_t warmup_steps = 100;  // at most a tenth of the steps unless set
  double wsd_decay_fraction = 0.2;
  double min_lr_ratio = 0.1;
  Decay decay = Decay::kMatrices;
  bool operator==(const OptimSettings&) const = default;
};

// Exactly one of steps and tokens is set; total_steps (load.h) gives the number of updates.
struct TrainSettings {
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> tokens;
  std::int64_t global_batch_tokens = 16384;
  std::int64_t micro_batch_sequences = 0;  // 0: the largest divisor of the batch that fits device.memory_limit
  Recompute recompute = Recompute::kNone;
  std::int64_t eval_every = 100;
  std::int64_t save_every = 500;
  std::int64_t keep_last = 3;
  std::int64_t keep_every = 0;
  std::int64_t keep_best = 0;
  std::int64_t sample_every = 0;
  std::string sample_prompt;
  std::int64_t sample_tokens = 64;
  std::int64_t log_every = 1;
  bool operator==(const TrainSettings&) const = default;
};

struct PrecisionOverride {
  std::string match;
  std::optional<std::string> pass;
  std::optional<std::string> operand;
  std::optional<std::string> format;
  std::optional<std::string> rounding;
  std::optional<std::string> transform;
  std::optional<std::string> prescale;
  bool operator==(const PrecisionOverride&) const = default;
};

// An integer is a step, a float a fraction of the run.
using PhaseStart = std::variant<std::int64_t, double>;

struct PrecisionPhase {
  std::optional<PhaseStart> from;
  std::optional<std::string> when;
  std::string recipe;
  bool operator==(const PrecisionPhase&) const = default;
};

struct PrecisionSettings {
  std::string recipe = "bf16";
  MasterFormat master = MasterFormat::kFp32;
  StateFormat state = StateFormat::kFp32;
  GradAccum grad_accum = GradAccum::kFp32;
  BackwardScale backward_scale = BackwardScale::kMicroBatchMean;
  std::vector<PrecisionOverride> overrides;  // [[precision.override]]
  std::vector<PrecisionPhase> phases;        // [[precision.phase]]
  bool operator==(const PrecisionSettings&) const = default;
};

// Layers per pipeline stage; `layers` empty means "auto".
struct StageSplit {
  std::vector<std::int64_t> layers;
  bool operator==(const StageSplit&) const = default;
};

struct ParallelSettings {
  std::int64_t data = 1;
  std::int64_t pipeline = 1;
  StageSplit split;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  Transport transport = Transport::kAuto;
  bool operator==(const ParallelSettings&) const = default;
};

struct DeviceSettings {
  Backend backend = Backend::kAuto;
  std::string memory_limit;  // "16GiB"; empty: what the device has
  bool deterministic = false;
  bool graphs = true;
  std::int64_t threads = 0;  // 0: all cores the process may use
  bool operator==(const DeviceSettings&) const = default;
};

struct EvidenceSettings {
  EngineKind engine = EngineKind::kEither;
  OnFallback on_fallback = OnFallback::kError;
  Probe probe = Probe::kAuto;
  KernelTrace kernels = KernelTrace::kWindow;
  bool operator==(const EvidenceSettings&) const = default;
};

struct GateSettings {
  NonFinite non_finite = NonFinite::kSkip;
  double spike_sigma = 6.0;
  SpikeAction spike_action = SpikeAction::kSkip;
  bool operator==(const GateSettings&) const = default;
};

struct RunSettings {
  RunSection run;
  ModelSettings model;
  TokenizerSettings tokenizer;
  DataSettings data;
  OptimSettings optim;
  TrainSettings train;
  PrecisionSettings precision;
  ParallelSettings parallel;
  DeviceSettings device;
  EvidenceSettings evidence;
  GateSettings gates;
  bool operator==(const RunSettings&) const = default;
};

// Where a value came from: its initialiser, the file, `--set`, or other settings (a preset's sizes, lion's betas, ...).
enum class Source : std::uint8_t { kDefault, kFile, kSet, kDerived };

struct RunConfig : RunSettings {
  std::map<std::string, Source, std::less<>> sources;  // by setting path; absent: kDefault
  Source source_of(std::string_view path) const {
    const auto found = sources.find(path);
    return found == sources.end() ? Source::kDefault : found->second;
  }
  // Equal values; where they came from does not matter.
  bool operator==(const RunConfig& other) const { return static_cast<const RunSettings&>(*this) == other; }
};

}  // namespace ida::config
