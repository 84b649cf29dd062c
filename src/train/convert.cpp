#include "train/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_model.h"
#include "eval/forward_model.h"
#include "formats/bf16.h"
#include "model/param_spec.h"
#include "text/tokenizer.h"

namespace ida::train {
namespace {

using checkpoint::HfModel;
using checkpoint::StoredDType;
using checkpoint::TensorSpan;

bool has_tokenizer(const std::string& dir) {
  return is_regular_file(dir + "/tokenizer.json") || is_regular_file(dir + "/tokenizer.model");
}

std::vector<float> widened(const TensorSpan& tensor, std::int64_t numel) {
  std::vector<float> values(static_cast<std::size_t>(numel));
  if (!checkpoint::widen_to_f32(tensor, values)) values.clear();
  return values;
}

void check_finite(const HfModel& source, const model::ParamTable& table) {
  for (const model::ParamSpec& spec : table.params) {
    const std::vector<float> values = widened(*source.find(spec.name), spec.numel());
    const auto bad = std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    if (bad != values.end())
      fail_corrupt("{}: tensor '{}' holds {} at value {}; expected finite weights", source.dir(), spec.name, *bad,
                   bad - values.begin());
  }
}

void check_tokenizer(const std::string& dir, const model::ModelConfig& config) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(dir);
  if (tokenizer.vocab_size() > config.vocab_size)
    fail_usage("{}: the tokenizer has {} tokens but vocab_size is {}", dir, tokenizer.vocab_size(), config.vocab_size);
}

void refuse_same_folder(const std::string& source, const std::string& out) {
  std::error_code code;
  if (std::filesystem::equivalent(source, out, code)) fail_usage("{}: is the source itself; write to another folder", out);
}

void check_same_bytes(const HfModel& source, const model::ParamTable& table, const std::string& out_dir) {
  const HfModel written(out_dir);
  for (const model::ParamSpec& spec : table.params) {
    const TensorSpan& want = *source.find(spec.name);
    const TensorSpan* got = written.find(spec.name);
    if (got == nullptr || got->dtype != want.dtype || !std::ranges::equal(got->bytes, want.bytes))
      fail_runtime("{}: tensor '{}' reads back otherwise than it was written; the disk is not to be trusted", out_dir,
                   spec.name);
  }
}

ConvertReport copy_model(const std::string& source_dir, const std::string& out_dir) {
  refuse_same_folder(source_dir, out_dir);
  const HfModel source = checkpoint::open_model(source_dir);
  const model::ParamTable table = model::build_param_table(source.config());
  checkpoint::check_hf_weights(source, table);
  check_finite(source, table);
  const bool tokenizer = has_tokenizer(source_dir);
  if (tokenizer) check_tokenizer(source_dir, source.config());
  checkpoint::copy_hf_model(source, table, out_dir);
  check_same_bytes(source, table, out_dir);
  return {.source = source_dir,
          .num_tensors = static_cast<std::int64_t>(table.params.size()),
          .num_parameters = table.num_parameters,
          .has_tokenizer = tokenizer};
}

// Values of `got` against `want` rounded to got's dtype. F16 sources widen exactly, so F16 to F16 compares as f32.
void compare_values(const HfModel& got, const HfModel& want, const model::ParamTable& table, ExportReport& report) {
  for (const model::ParamSpec& spec : table.params) {
    const TensorSpan& tensor = *got.find(spec.name);
    const TensorSpan* original = want.find(spec.name);
    if (original == nullptr || original->shape != tensor.shape) {
      report.problems.push_back(fmt::format("tensor '{}': the source has none of that shape", spec.name));
      continue;
    }
    const std::vector<float> a = widened(tensor, spec.numel());
    std::vector<float> b = widened(*original, spec.numel());
    if (tensor.dtype == StoredDType::kBF16)
      std::transform(b.begin(), b.end(), b.begin(), [](float x) { return to_f32(bf16_from_f32(x)); });
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
      if (!(difference <= largest)) largest = difference;
    }
    if (largest != 0.0)
      report.problems.push_back(fmt::format("tensor '{}' differs from the source by up to {}", spec.name, largest));
    report.max_difference = std::max(report.max_difference, largest);
  }
}

void run_forward(const std::string& dir, runtime::Device& device, const ops::Backend& backend, ExportReport& report) {
  constexpr std::int32_t kTokens = 8;
  eval::HostTokens host;
  for (std::int32_t i = 0; i < kTokens; ++i) {
    host.tokens.push_back(i);
    host.labels.push_back(-100);
    host.positions.push_back(i);
  }
  host.segments = {{.q_begin = 0, .q_len = kTokens, .kv_begin = 0, .kv_len = kTokens}};
  const eval::LoadOptions options{.dtype = std::nullopt, .with_tokenizer = has_tokenizer(dir), .max_positions = kTokens};
  eval::LoadedModel model(dir, device, backend, options,
                          [&](const eval::ForwardModel& dry) { eval::all_logits(dry, host); });
  if (model.config().vocab_size < kTokens) return;
  const std::vector<float> logits = eval::all_logits(model.forward(), host);
  report.num_logits = static_cast<std::int64_t>(logits.size());
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    report.problems.emplace_back("a forward pass gives values that are not finite");
}

}  // namespace

ConvertReport import_model(const std::string& source_dir, const std::string& out_dir) {
  return copy_model(source_dir, out_dir);
}

ConvertReport export_model(const std::string& source_dir, const std::string& out_dir, const std::string& format) {
  if (format != "hf") fail_usage("[export] format '{}' is not available in this build; available: hf", format);
  return copy_model(source_dir, out_dir);
}

ExportReport verify_export(const std::string& dir, const std::string& source_dir, runtime::Device& device,
                           const ops::Backend& backend) {
  ExportReport report;
  report.has_manifest = is_regular_file(dir + "/" + checkpoint::kManifestName);
  try {
    if (report.has_manifest) report.problems = checkpoint::verify_checkpoint(dir).problems;
    const HfModel model(dir);
    const model::ParamTable table = model::build_param_table(model.config());
    checkpoint::check_hf_weights(model, table);
    check_finite(model, table);
    if (has_tokenizer(dir)) check_tokenizer(dir, model.config());
    report.num_tensors = static_cast<std::int64_t>(table.params.size());
    report.num_values = table.num_parameters;
    if (!source_dir.empty()) {
      const HfModel source = checkpoint::open_model(source_dir);
      model::ModelConfig want = source.config();
      want.dtype = model.config().dtype;
      if (want != model.config()) report.problems.emplace_back("config.json describes another model than the source's");
      compare_values(model, source, table, report);
    }
    run_forward(dir, device, backend, report);
  } catch (const Error& error) {
    report.problems.emplace_back(error.what());
  }
  return report;
}

}  // namespace ida::train
