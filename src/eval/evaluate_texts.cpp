#include "eval/evaluate_texts.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "model/hf_config.h"

namespace ida::eval {
namespace {

constexpr std::int64_t kDefaultWindow = 1024;

std::int64_t shortest_of(const text::Tokenizer& tokenizer, const std::vector<NamedText>& texts, std::string& name) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (const NamedText& text : texts) {
    const auto tokens = static_cast<std::int64_t>(tokenizer.encode(text.text).size());
    if (tokens >= shortest) continue;
    shortest = tokens;
    name = text.name;
  }
  return shortest;
}

void add_to(PerplexityResult& total, const PerplexityResult& file) {
  total.text_tokens += file.text_tokens;
  total.windows += file.windows;
  total.scored_tokens += file.scored_tokens;
  total.scored_bytes += file.scored_bytes;
  total.nll_sum += file.nll_sum;
}

}  // namespace

std::int64_t default_window(std::int64_t max_positions, bool bos, std::int64_t shortest_text_tokens) {
  return std::min({kDefaultWindow, max_positions - (bos ? 1 : 0), shortest_text_tokens});
}

TextsResult evaluate_texts(const std::string& model_dir, runtime::Device& device, const ops::Backend& backend,
                           const std::vector<NamedText>& texts, const EvaluateOptions& options) {
  if (texts.empty()) fail_usage("[eval ppl] no text given");
  const std::string config_path = model_dir + "/config.json";
  const model::ModelConfig config = model::parse_hf_config(read_file(config_path, 1 << 20), config_path);
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  const bool bos = tokenizer.adds_bos() && tokenizer.bos_id();
  const std::int64_t positions = config.max_position_embeddings;

  TextsResult result;
  std::int64_t window = options.window;
  if (window == 0) {
    std::string name;
    const std::int64_t shortest = shortest_of(tokenizer, texts, name);
    if (shortest < (bos ? 1 : 2)) fail_usage("[eval ppl] {} has {} tokens: nothing to predict", name, shortest);
    window = default_window(positions, bos, shortest);
    if (window == shortest)
      result.note = fmt::format("window shortened to the {} tokens of {}; --window sets another", window, name);
  }
  if (window + (bos ? 1 : 0) > positions)
    fail_usage("[eval ppl] a window of {} tokens{} is longer than the model's {} positions: use --window {} or less",
               window, bos ? " and BOS" : "", positions, positions - (bos ? 1 : 0));
  result.shape = window_shape(window, bos);
  LoadedModel model(model_dir, device, backend, {.dtype = options.dtype, .max_positions = result.shape.input_tokens()},
                    [&](const ForwardModel& dry) { plan_perplexity(dry, result.shape); });
  for (const NamedText& text : texts) {
    result.files.push_back(perplexity(model.forward(), model.tokenizer(), text.text, text.name, result.shape));
    add_to(result.total, result.files.back());
  }
  result.total.name = "total";
  result.dtype = model.dtype();
  result.counters = model.counters();
  return result;
}

}  // namespace ida::eval
