// The declarations. Adding a setting = a member in run_config.h and a row here.
#include <algorithm>
#include <cassert>

#include "config/presets.h"
#include "config/recipes.h"
#include "config/setting.h"
#include "config/size_text.h"

namespace ida::config {
namespace {

template <typename T>
ValueRef make_ref(T& member) {
  if constexpr (std::is_enum_v<T>) {
    static_assert(std::is_same_v<std::underlying_type_t<T>, unsigned char>, "EnumRef writes an enum as its one byte");
    return EnumRef{reinterpret_cast<unsigned char*>(&member), EnumNames<T>::names};
  } else {
    return &member;
  }
}

template <typename Owner, typename Member>
Owner owner_of(Member Owner::*);

// The member reached from its owner by a chain of pointers to members.
template <auto kFirst, auto... kRest>
ValueRef at(void* owner) {
  using Owner = decltype(owner_of(kFirst));
  auto& first = static_cast<Owner*>(owner)->*kFirst;
  return make_ref((first.*....*kRest));
}

constexpr double kMaxCount = 1e15;  // keeps products of two counts inside 64 bits together with kMaxSize
constexpr double kMaxSize = 1 << 24;
constexpr Range kSize = {.min = 1, .max = kMaxSize};
constexpr Range kCount = {.min = 0, .max = kMaxCount};
constexpr Range kCountFrom1 = {.min = 1, .max = kMaxCount};
constexpr Range kPositive = {.min = 0, .min_excluded = true};
constexpr Range kNotNegative = {.min = 0};
constexpr Range kFraction = {.min = 0, .max = 1};

std::string refuse_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

std::string refuse_run_name(const std::string& text) {
  if (text == "." || text == ".." || text.find('/') != std::string::npos) return "is not the name of one folder";
  if (text.size() > 200) return "is longer than 200 bytes";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "has control characters";
  }
  return "";
}

std::string refuse_memory_limit(const std::string& text) {
  if (text.empty() || try_parse_size_bytes(text)) return "";
  return "is no size; write a number and B, KiB, MiB, GiB or TiB, such as \"16GiB\"";
}

constexpr std::array<std::string_view, 3> kPasses = {"fprop", "dgrad", "wgrad"};
constexpr std::array<std::string_view, 3> kOperands = {"input", "weight", "grad"};
constexpr std::array<std::string_view, 7> kFormats = {"fp32", "bf16", "e4m3", "e5m2", "mxfp8", "mxfp4", "nvfp4"};
constexpr std::array<std::string_view, 2> kRoundings = {"nearest_even", "stochastic"};
constexpr std::array<std::string_view, 2> kTransforms = {"none", "hadamard16"};
constexpr std::array<std::string_view, 2> kPrescales = {"none", "power_of_two"};
constexpr std::array<std::string_view, 1> kWhens = {"gradient_noise"};
constexpr std::array<std::string_view, 1> kOnlyFp32 = {"fp32"};

constexpr std::array kSections = {
    Section{"run", "the run's folder and its random numbers"},
    Section{"model", "exactly one of: preset, path, sizes; keys as in a Hugging Face config.json"},
    Section{"model.rope_scaling", "scaling of rotary frequencies"},
    Section{"tokenizer", "path of a tokenizer.json, or the vocabulary to train on data.train"},
    Section{"data", "texts and how they become sequences"},
    Section{"optim", "optimizer and learning-rate schedule"},
    Section{"train", "length of the run, batches, and what happens every so often"},
    Section{"precision", "number formats of products, masters, state and gradients"},
    Section{"parallel", "several devices"},
    Section{"device", "where to compute"},
    Section{"evidence", "what counts as having run"},
    Section{"gates", "when a run protects itself"},
};

// Every row starts with at<section, member>; this alias shortens nothing but the name of the outer class.
using S = RunSettings;

const std::array kSettings = {
    Setting{.path = "run.name", .ref = at<&S::run, &RunSection::name>, .help = "folder of the run inside run.dir",
            .refusal = refuse_run_name, .effect = Effect::kNone, .required = true},
    Setting{.path = "run.dir", .ref = at<&S::run, &RunSection::dir>, .help = "folder of all runs",
            .refusal = refuse_empty, .effect = Effect::kNone},
    Setting{.path = "run.seed", .ref = at<&S::run, &RunSection::seed>,
            .help = "seed of initial weights, shuffling and stochastic rounding", .range = kNotNegative},

    Setting{.path = "model.preset", .ref = at<&S::model, &ModelSettings::preset>,
            .help = "a named shape; single keys may override it", .choices = preset_names()},
    Setting{.path = "model.path", .ref = at<&S::model, &ModelSettings::path>,
            .help = "Hugging Face folder to start from; brings sizes, weights and tokenizer",
            .refusal = refuse_empty},
    Setting{.path = "model.model_type", .ref = at<&S::model, &ModelSettings::model_type>,
            .help = "family; llama unless set", .refusal = refuse_empty},
    Setting{.path = "model.hidden_size", .ref = at<&S::model, &ModelSettings::hidden_size>,
            .help = "width of the residual stream", .range = kSize},
    Setting{.path = "model.intermediate_size", .ref = at<&S::model, &ModelSettings::intermediate_size>,
            .help = "width of the MLP", .range = kSize},
    Setting{.path = "model.num_hidden_layers", .ref = at<&S::model, &ModelSettings::num_hidden_layers>,
            .help = "number of decoder blocks", .range = {.min = 1, .max = 10000}},
    Setting{.path = "model.num_attention_heads", .ref = at<&S::model, &ModelSettings::num_attention_heads>,
            .help = "query heads", .range = kSize},
    Setting{.path = "model.num_key_value_heads", .ref = at<&S::model, &ModelSettings::num_key_value_heads>,
            .help = "key/value heads; num_attention_heads unless set", .range = kSize},
    Setting{.path = "model.head_dim", .ref = at<&S::model, &ModelSettings::head_dim>,
            .help = "width of a head; hidden_size / num_attention_heads unless set", .range = kSize},
    Setting{.path = "model.vocab_size", .ref = at<&S::model, &ModelSettings::vocab_size>,
            .help = "rows of the embedding; the tokenizer's unless set", .range = kSize},
    Setting{.path = "model.max_position_embeddings", .ref = at<&S::model, &ModelSettings::max_position_embeddings>,
            .help = "longest sequence the model is meant for; data.seq_len unless set", .unit = "tokens",
            .range = {.min = 1, .max = 1e9}},
    Setting{.path = "model.rms_norm_eps", .ref = at<&S::model, &ModelSettings::rms_norm_eps>,
            .help = "added to the mean square in RMSNorm", .range = {.min = 0, .max = 1}},
    Setting{.path = "model.rope_theta", .ref = at<&S::model, &ModelSettings::rope_theta>,
            .help = "base of the rotary frequencies", .range = kPositive},
    Setting{.path = "model.tie_word_embeddings", .ref = at<&S::model, &ModelSettings::tie_word_embeddings>,
            .help = "the head is the embedding; false unless set"},
    Setting{.path = "model.attention_bias", .ref = at<&S::model, &ModelSettings::attention_bias>,
            .help = "biases in the attention projections"},
    Setting{.path = "model.mlp_bias", .ref = at<&S::model, &ModelSettings::mlp_bias>, .help = "biases in the MLP"},
    Setting{.path = "model.sliding_window", .ref = at<&S::model, &ModelSettings::sliding_window>,
            .help = "keys a query sees, itself included", .unit = "tokens", .range = kCountFrom1},
    Setting{.path = "model.use_sliding_window", .ref = at<&S::model, &ModelSettings::use_sliding_window>,
            .help = "qwen: whether sliding_window is used"},
    Setting{.path = "model.max_window_layers", .ref = at<&S::model, &ModelSettings::max_window_layers>,
            .help = "qwen: layers from this one on slide", .range = kCount},
    Setting{.path = "model.initializer_range", .ref = at<&S::model, &ModelSettings::initializer_range>,
            .help = "standard deviation of initial weights", .range = kNotNegative},
    Setting{.path = "model.rope_scaling.rope_type",
            .ref = at<&S::model, &ModelSettings::rope_scaling, &RopeScaling::rope_type>, .help = "default or llama3",
            .refusal = refuse_empty},
    Setting{.path = "model.rope_scaling.factor",
            .ref = at<&S::model, &ModelSettings::rope_scaling, &RopeScaling::factor>,
            .help = "divides low frequencies", .range = kPositive},
    Setting{.path = "model.rope_scaling.low_freq_factor",
            .ref = at<&S::model, &ModelSettings::rope_scaling, &RopeScaling::low_freq_factor>,
            .help = "llama3: below original / this many turns a frequency is divided", .range = kPositive},
    Setting{.path = "model.rope_scaling.high_freq_factor",
            .ref = at<&S::model, &ModelSettings::rope_scaling, &RopeScaling::high_freq_factor>,
            .help = "llama3: above original / this many turns a frequency stays", .range = kPositive},
    Setting{.path = "model.rope_scaling.original_max_position_embeddings",
            .ref = at<&S::model, &ModelSettings::rope_scaling, &RopeScaling::original_max_position_embeddings>,
            .help = "context before scaling", .unit = "tokens", .range = kCountFrom1},

    Setting{.path = "tokenizer.path", .ref = at<&S::tokenizer, &TokenizerSettings::path>,
            .help = "tokenizer.json; a model path brings its own", .refusal = refuse_empty},
    Setting{.path = "tokenizer.vocab_size", .ref = at<&S::tokenizer, &TokenizerSettings::vocab_size>,
            .help = "trains a byte-level BPE of this size on data.train", .unit = "tokens",
            .range = {.min = 257, .max = kMaxSize}},

    Setting{.path = "data.train", .ref = at<&S::data, &DataSettings::train>, .help = "training sources",
            .refusal = refuse_empty, .required = true},
    Setting{.path = "data.valid", .ref = at<&S::data, &DataSettings::valid>,
            .help = "validation sources; none: no val_loss", .refusal = refuse_empty},
    Setting{.path = "data.seq_len", .ref = at<&S::data, &DataSettings::seq_len>, .help = "length of a sequence",
            .unit = "tokens", .range = {.min = 2, .max = kMaxSize}},
    Setting{.path = "data.packing", .ref = at<&S::data, &DataSettings::packing>,
            .help = "documents: attention and positions end at document borders; stream: they do not"},
    Setting{.path = "data.mask", .ref = at<&S::data, &DataSettings::mask>, .help = "tokens whose loss counts"},
    Setting{.path = "data.shuffle", .ref = at<&S::data, &DataSettings::shuffle>,
            .help = "order of documents drawn anew each epoch"},
    Setting{.path = "data.weights", .ref = at<&S::data, &DataSettings::weights>,
            .help = "share of each entry of data.train; empty: by size", .range = kNotNegative},
    Setting{.path = "data.long_documents", .ref = at<&S::data, &DataSettings::long_documents>,
            .help = "a document longer than seq_len is cut into pieces, cut short, or left out"},

    Setting{.path = "optim.name", .ref = at<&S::optim, &OptimSettings::name>, .help = "update rule"},
    Setting{.path = "optim.lr", .ref = at<&S::optim, &OptimSettings::lr>, .help = "peak learning rate",
            .range = kPositive},
    Setting{.path = "optim.betas", .ref = at<&S::optim, &OptimSettings::betas>,
            .help = "decay of the moments; lion unless set: [0.9, 0.99]",
            .range = {.min = 0, .max = 1, .max_excluded = true}},
    Setting{.path = "optim.eps", .ref = at<&S::optim, &OptimSettings::eps>, .help = "adamw: added to the root",
            .range = kNotNegative},
    Setting{.path = "optim.weight_decay", .ref = at<&S::optim, &OptimSettings::weight_decay>,
            .help = "decoupled: weights shrink by lr times this", .range = kNotNegative},
    Setting{.path = "optim.clip_norm", .ref = at<&S::optim, &OptimSettings::clip_norm>,
            .help = "largest global gradient norm; 0: no clipping", .range = kNotNegative},
    Setting{.path = "optim.schedule", .ref = at<&S::optim, &OptimSettings::schedule>,
            .help = "learning rate after the warmup"},
    Setting{.path = "optim.warmup_steps", .ref = at<&S::optim, &OptimSettings::warmup_steps>,
            .help = "linear rise from 0; at most a tenth of the run unless set", .unit = "steps", .range = kCount},
    Setting{.path = "optim.wsd_decay_fraction", .ref = at<&S::optim, &OptimSettings::wsd_decay_fraction>,
            .help = "wsd: last part of the run in which the rate falls", .unit = "fraction of steps",
            .range = kFraction},
    Setting{.path = "optim.min_lr_ratio", .ref = at<&S::optim, &OptimSettings::min_lr_ratio>,
            .help = "final rate; constant ignores it", .unit = "fraction of lr", .range = kFraction},
    Setting{.path = "optim.decay", .ref = at<&S::optim, &OptimSettings::decay>,
            .help = "parameters that weight_decay shrinks; matrices: no norms and biases"},

    Setting{.path = "train.steps", .ref = at<&S::train, &TrainSettings::steps>,
            .help = "updates of the run; this or train.tokens is required", .unit = "steps", .range = kCountFrom1},
    Setting{.path = "train.tokens", .ref = at<&S::train, &TrainSettings::tokens>,
            .help = "tokens of the run, rounded up to whole steps", .unit = "tokens", .range = kCountFrom1},
    Setting{.path = "train.global_batch_tokens", .ref = at<&S::train, &TrainSettings::global_batch_tokens>,
            .help = "tokens of one update, a multiple of data.seq_len", .unit = "tokens", .range = kCountFrom1},
    Setting{.path = "train.micro_batch_sequences", .ref = at<&S::train, &TrainSettings::micro_batch_sequences>,
            .help = "sequences computed at once; 0: as many as fit device.memory_limit", .unit = "sequences",
            .range = kCount},
    Setting{.path = "train.recompute", .ref = at<&S::train, &TrainSettings::recompute>,
            .help = "activations computed again in backward to save memory", .effect = Effect::kNone},
    Setting{.path = "train.eval_every", .ref = at<&S::train, &TrainSettings::eval_every>,
            .help = "validation interval; 0: at the end only", .unit = "steps", .range = kCount,
            .effect = Effect::kNone},
    Setting{.path = "train.save_every", .ref = at<&S::train, &TrainSettings::save_every>,
            .help = "checkpoint interval; 0: at the end only", .unit = "steps", .range = kCount,
            .effect = Effect::kNone},
    Setting{.path = "train.keep_last", .ref = at<&S::train, &TrainSettings::keep_last>,
            .help = "checkpoints kept; 0: all", .range = kCount, .effect = Effect::kNone},
    Setting{.path = "train.sample_every", .ref = at<&S::train, &TrainSettings::sample_every>,
            .help = "interval of printed samples; 0: none", .unit = "steps", .range = kCount,
            .effect = Effect::kNone},
    Setting{.path = "train.sample_prompt", .ref = at<&S::train, &TrainSettings::sample_prompt>,
            .help = "text that samples continue", .effect = Effect::kNone},
    Setting{.path = "train.sample_tokens", .ref = at<&S::train, &TrainSettings::sample_tokens>,
            .help = "length of a sample", .unit = "tokens", .range = {.min = 1, .max = kMaxSize},
            .effect = Effect::kNone},
    Setting{.path = "train.log_every", .ref = at<&S::train, &TrainSettings::log_every>,
            .help = "interval of metrics", .unit = "steps", .range = kCountFrom1, .effect = Effect::kNone},

    Setting{.path = "precision.recipe", .ref = at<&S::precision, &PrecisionSettings::recipe>,
            .help = "number formats of every product", .choices = kRecipes, .implemented = kAvailableRecipes},
    Setting{.path = "precision.master", .ref = at<&S::precision, &PrecisionSettings::master>,
            .help = "weights the optimizer updates", .implemented = kOnlyFp32},
    Setting{.path = "precision.state", .ref = at<&S::precision, &PrecisionSettings::state>,
            .help = "moments of the optimizer"},
    Setting{.path = "precision.grad_accum", .ref = at<&S::precision, &PrecisionSettings::grad_accum>,
            .help = "sum of gradients over micro-batches", .implemented = kOnlyFp32},
    Setting{.path = "precision.backward_scale", .ref = at<&S::precision, &PrecisionSettings::backward_scale>,
            .help = "factor of the loss gradient during backward, removed before the optimizer"},

    Setting{.path = "parallel.data", .ref = at<&S::parallel, &ParallelSettings::data>,
            .help = "replicas that share a batch", .range = {.min = 1, .max = 65536}},
    Setting{.path = "parallel.pipeline", .ref = at<&S::parallel, &ParallelSettings::pipeline>,
            .help = "stages the layers are divided into", .range = {.min = 1, .max = 65536}, .effect = Effect::kNone},
    Setting{.path = "parallel.split", .ref = at<&S::parallel, &ParallelSettings::split>,
            .help = "layers of each stage", .range = {.min = 1, .max = 10000}, .effect = Effect::kNone},
    Setting{.path = "parallel.schedule", .ref = at<&S::parallel, &ParallelSettings::schedule>,
            .help = "order of micro-batches in the stages", .effect = Effect::kNone},
    Setting{.path = "parallel.transport", .ref = at<&S::parallel, &ParallelSettings::transport>,
            .help = "how stages exchange activations", .effect = Effect::kNone},

    Setting{.path = "device.backend", .ref = at<&S::device, &DeviceSettings::backend>,
            .help = "auto: cuda where a GPU is found"},
    Setting{.path = "device.memory_limit", .ref = at<&S::device, &DeviceSettings::memory_limit>,
            .help = "such as \"16GiB\"; empty: what the device has", .unit = "bytes", .refusal = refuse_memory_limit},
    Setting{.path = "device.deterministic", .ref = at<&S::device, &DeviceSettings::deterministic>,
            .help = "equal bits in every repetition, where a device does not give them anyway"},
    Setting{.path = "device.threads", .ref = at<&S::device, &DeviceSettings::threads>,
            .help = "host threads; 0: all cores the process may use", .range = {.min = 0, .max = 4096},
            .effect = Effect::kNone},

    Setting{.path = "evidence.engine", .ref = at<&S::evidence, &EvidenceSettings::engine>,
            .help = "engines that may serve a low-precision product"},
    Setting{.path = "evidence.on_fallback", .ref = at<&S::evidence, &EvidenceSettings::on_fallback>,
            .help = "stop at a fallback, or use it and write it down"},
    Setting{.path = "evidence.probe", .ref = at<&S::evidence, &EvidenceSettings::probe>,
            .help = "whether an engine must have passed its probe before", .effect = Effect::kNone},
    Setting{.path = "evidence.kernels", .ref = at<&S::evidence, &EvidenceSettings::kernels>,
            .help = "list the kernels a window of steps launched", .effect = Effect::kNone},

    Setting{.path = "gates.non_finite", .ref = at<&S::gates, &GateSettings::non_finite>,
            .help = "what a NaN or infinite loss or gradient does"},
    Setting{.path = "gates.spike_sigma", .ref = at<&S::gates, &GateSettings::spike_sigma>,
            .help = "a loss this far above its recent mean is a spike; 0: off", .unit = "standard deviations",
            .range = kNotNegative},
    Setting{.path = "gates.spike_action", .ref = at<&S::gates, &GateSettings::spike_action>,
            .help = "what a spike does"},
};

const std::array kOverrideFields = {
    Setting{.path = "match", .ref = at<&PrecisionOverride::match>, .help = "modules, such as lm_head or layers.0-1.*",
            .refusal = refuse_empty, .required = true},
    Setting{.path = "pass", .ref = at<&PrecisionOverride::pass>, .help = "one pass; all unless set",
            .choices = kPasses},
    Setting{.path = "operand", .ref = at<&PrecisionOverride::operand>, .help = "one operand; both unless set",
            .choices = kOperands},
    Setting{.path = "format", .ref = at<&PrecisionOverride::format>, .help = "number format", .choices = kFormats},
    Setting{.path = "rounding", .ref = at<&PrecisionOverride::rounding>, .help = "rounding", .choices = kRoundings},
    Setting{.path = "transform", .ref = at<&PrecisionOverride::transform>, .help = "applied before rounding",
            .choices = kTransforms},
    Setting{.path = "prescale", .ref = at<&PrecisionOverride::prescale>, .help = "factor before rounding",
            .choices = kPrescales},
};

const std::array kPhaseFields = {
    Setting{.path = "from", .ref = at<&PrecisionPhase::from>, .help = "integer: step; float: fraction of the run",
            .range = kCount},
    Setting{.path = "when", .ref = at<&PrecisionPhase::when>, .help = "condition that starts the phase",
            .choices = kWhens},
    Setting{.path = "recipe", .ref = at<&PrecisionPhase::recipe>, .help = "recipe from then on", .choices = kRecipes,
            .required = true},
};

template <auto kList>
TableList table_list(std::string_view path, std::string_view help, std::span<const Setting> fields) {
  return {.path = path,
          .help = help,
          .fields = fields,
          .size = [](const RunSettings& settings) { return (settings.precision.*kList).size(); },
          .resize = [](RunSettings& settings, std::size_t count) { (settings.precision.*kList).resize(count); },
          .element = [](RunSettings& settings, std::size_t index) -> void* {
            return &(settings.precision.*kList)[index];
          }};
}

const std::array kTableLists = {
    table_list<&PrecisionSettings::overrides>("precision.override", "exceptions from the recipe", kOverrideFields),
    table_list<&PrecisionSettings::phases>("precision.phase", "recipes that take over during the run", kPhaseFields),
};

template <typename Row>
const Row* find_row(std::span<const Row> rows, std::string_view path) {
  const auto found = std::ranges::find(rows, path, &Row::path);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Setting> all_settings() { return kSettings; }
std::span<const TableList> all_table_lists() { return kTableLists; }
std::span<const Section> all_sections() { return kSections; }
const Setting* find_setting(std::string_view path) { return find_row(all_settings(), path); }
const TableList* find_table_list(std::string_view path) { return find_row(all_table_lists(), path); }
bool is_section(std::string_view path) { return std::ranges::find(kSections, path, &Section::name) != kSections.end(); }

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  assert(dot != std::string_view::npos);
  return path.substr(0, dot);
}

ValueRef value_of(const Setting& setting, RunSettings& settings) { return setting.ref(&settings); }

}  // namespace ida::config
