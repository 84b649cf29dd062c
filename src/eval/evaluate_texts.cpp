#include "eval/evaluate_texts.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "model/hf_config.h"

namespace ida::eval {
namespace {

constexpr std::int64_t kDefaultWindow = 1024;

std::vector<std::int64_t> token_counts(const text::Tokenizer& tokenizer, const std::vector<NamedText>& texts) {
  std::vector<std::int64_t> counts;
  for (const NamedText& text : texts) counts.push_back(static_cast<std::int64_t>(tokenizer.encode(text.text).size()));
  return counts;
}

void add_to(PerplexityResult& total, const PerplexityResult& file) {
  total.text_tokens += file.text_tokens;
  total.windows += file.windows;
  total.scored_tokens += file.scored_tokens;
  total.scored_bytes += file.scored_bytes;
  total.nll_sum += file.nll_sum;
}

}  // namespace

std::int64_t default_window(std::int64_t max_positions, bool bos, std::int64_t longest_text_tokens) {
  return std::min({kDefaultWindow, max_positions - (bos ? 1 : 0), longest_text_tokens});
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
  const std::vector<std::int64_t> counts = token_counts(tokenizer, texts);
  const std::size_t longest = static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  if (window == 0) {
    if (counts[longest] < (bos ? 1 : 2))
      fail_usage("[eval ppl] {} has {} tokens: nothing to predict", texts[longest].name, counts[longest]);
    window = default_window(positions, bos, counts[longest]);
    if (window == counts[longest])
      result.note =
          fmt::format("window shortened to the {} tokens of {}; --window sets another", window, texts[longest].name);
  }
  if (counts[longest] < window)
    fail_usage("[eval ppl] {} has {} tokens, fewer than one window of {}: give a smaller --window", texts[longest].name,
               counts[longest], window);
  if (window + (bos ? 1 : 0) > positions)
    fail_usage("[eval ppl] a window of {} tokens{} is longer than the model's {} positions: use --window {} or less",
               window, bos ? " and BOS" : "", positions, positions - (bos ? 1 : 0));
  result.shape = window_shape(window, bos);
  LoadedModel model(model_dir, device, backend, {.dtype = options.dtype, .max_positions = result.shape.input_tokens()},
                    [&](const ForwardModel& dry) { plan_perplexity(dry, result.shape); });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const NamedText& text = texts[i];
    if (counts[i] < window) {
      result.skipped.push_back(text.name);
      continue;
    }
    result.files.push_back(perplexity(model.forward(), model.tokenizer(), text.text, text.name, result.shape));
    add_to(result.total, result.files.back());
  }
  result.total.name = "total";
  result.dtype = model.dtype();
  result.counters = model.counters();
  return result;
}

}  // namespace ida::eval
