#include "eval/generate_text.h"

#include "base/error.h"
#include "base/file.h"
#include "model/hf_config.h"

namespace ida::eval {
namespace {

std::vector<std::int32_t> stop_ids(const model::ModelConfig& config, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : config.eos_token_ids) ids.push_back(static_cast<std::int32_t>(id));
  if (const auto eos = tokenizer.eos_id()) ids.push_back(*eos);
  return ids;
}

// What `ids` add to the text of `prompt`: a blank that a decoder strips from the start of a text is not lost.
std::string continuation(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                         const std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> all = prompt;
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string before = tokenizer.decode(prompt, true);
  const std::string text = tokenizer.decode(all, true);
  return text.starts_with(before) ? text.substr(before.size()) : tokenizer.decode(ids, true);
}

}  // namespace

std::vector<std::int32_t> prompt_ids(const text::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  const auto bos = tokenizer.bos_id();
  if (bos && tokenizer.adds_bos() && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  if (!ids.empty()) return ids;
  const auto start = bos ? bos : tokenizer.eos_id();
  if (!start) fail_usage("[generate] the prompt is empty and the tokenizer has neither BOS nor EOS: give a text");
  return {*start};
}

TextSamples generate_text(const std::string& model_dir, runtime::Device& device, const ops::Backend& backend,
                          const TextRequest& request) {
  const std::string config_path = model_dir + "/config.json";
  const model::ModelConfig config = model::parse_hf_config(read_file(config_path, 1 << 20), config_path);
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  TextSamples result;
  result.max_positions = config.max_position_embeddings;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& prompt : request.prompts) {
    prompts.push_back(prompt_ids(tokenizer, prompt));
    const auto length = static_cast<std::int64_t>(prompts.back().size());
    if (length >= result.max_positions)
      fail_usage("[generate] prompt {} has {} tokens but the model has {} positions: shorten it", prompts.size(), length,
                 result.max_positions);
  }
  const GenerateShape shape = generate_shape(prompts, request.max_new_tokens, result.max_positions);
  LoadedModel model(model_dir, device, backend, {.dtype = request.dtype, .max_positions = shape.capacity},
                    [&](const ForwardModel& dry) { plan_generate(dry, shape); });
  const GenerateOptions options{.max_new_tokens = request.max_new_tokens,
                                .sampling = request.sampling,
                                .stop_ids = stop_ids(config, tokenizer),
                                .stop_texts = request.stop_texts,
                                .tokenizer = &tokenizer,
                                .max_positions = result.max_positions};
  std::vector<std::vector<std::int32_t>> outputs = generate(model.forward(), prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    TextSample sample{
        .prompt = request.prompts[i], .prompt_ids = std::move(prompts[i]), .ids = std::move(outputs[i]), .text = {}};
    sample.text = continuation(tokenizer, sample.prompt_ids, sample.ids);
    result.samples.push_back(std::move(sample));
  }
  result.dtype = model.dtype();
  result.counters = model.counters();
  return result;
}

}  // namespace ida::eval
