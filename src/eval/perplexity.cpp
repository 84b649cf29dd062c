#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/cross_entropy.h"

namespace ida::eval {
namespace {

void append_window(HostTokens& host, std::span<const std::int32_t> tokens, std::optional<std::int32_t> bos) {
  const auto begin = static_cast<std::int32_t>(host.tokens.size());
  if (bos) host.tokens.push_back(*bos);
  host.tokens.insert(host.tokens.end(), tokens.begin(), tokens.end());
  const auto length = static_cast<std::int32_t>(host.tokens.size()) - begin;
  for (std::int32_t i = 0; i < length; ++i) {
    host.positions.push_back(i);
    host.labels.push_back(i + 1 < length ? host.tokens[static_cast<std::size_t>(begin + i + 1)] : ops::kIgnoreLabel);
  }
  host.segments.push_back({.q_begin = begin, .q_len = length, .kv_begin = begin, .kv_len = length});
}

// Bytes of text the ids stand for when they follow `before`: a leading blank that a decoder strips is not lost.
std::int64_t text_bytes(const text::Tokenizer& tokenizer, std::int32_t before, std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> all = {before};
  const std::size_t first = tokenizer.decode(all).size();
  all.insert(all.end(), ids.begin(), ids.end());
  return static_cast<std::int64_t>(tokenizer.decode(all).size() - first);
}

}  // namespace

double PerplexityResult::perplexity() const { return std::exp(mean_nll()); }
double PerplexityResult::bits_per_byte() const {
  return nll_sum / std::numbers::ln2 / static_cast<double>(std::max<std::int64_t>(scored_bytes, 1));
}

WindowShape window_shape(std::int64_t window, bool bos) {
  WindowShape shape{.window = window, .bos = bos};
  shape.windows_per_call = std::max<std::int64_t>(1, 2048 / shape.input_tokens());
  return shape;
}

void plan_perplexity(const ForwardModel& model, const WindowShape& shape) {
  HostTokens host;
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(shape.window));
  for (std::int64_t i = 0; i < shape.windows_per_call; ++i)
    append_window(host, zeros, shape.bos ? std::optional<std::int32_t>(0) : std::nullopt);
  token_nll(model, host);
}

PerplexityResult perplexity(const ForwardModel& model, const text::Tokenizer& tokenizer, std::string_view text,
                            std::string_view name, const WindowShape& shape) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  PerplexityResult result{.name = std::string(name), .text_tokens = static_cast<std::int64_t>(ids.size())};
  result.windows = result.text_tokens / shape.window;
  if (shape.input_tokens() < 2)
    fail_usage("[eval ppl] a window of {} tokens has nothing to predict: use --window 2 or more", shape.window);
  if (result.windows == 0)
    fail_usage("[eval ppl] {} has {} tokens, fewer than one window of {}: give a smaller --window", name, ids.size(),
               shape.window);
  const auto bos = shape.bos ? tokenizer.bos_id() : std::nullopt;
  for (std::int64_t first = 0; first < result.windows; first += shape.windows_per_call) {
    HostTokens host;
    for (std::int64_t w = first; w < std::min(first + shape.windows_per_call, result.windows); ++w) {
      const std::span<const std::int32_t> window(ids.data() + w * shape.window, static_cast<std::size_t>(shape.window));
      append_window(host, window, bos);
      const bool has_before = w > 0;
      const std::int32_t before = has_before ? ids[static_cast<std::size_t>(w * shape.window - 1)] : window.front();
      if (shape.bos) {
        result.scored_bytes +=
            has_before ? text_bytes(tokenizer, before, window) : static_cast<std::int64_t>(tokenizer.decode(window).size());
      } else {
        result.scored_bytes += text_bytes(tokenizer, window.front(), window.subspan(1));
      }
    }
    const std::vector<float> nll = token_nll(model, host);
    for (std::size_t i = 0; i < nll.size(); ++i) {
      if (host.labels[i] == ops::kIgnoreLabel) continue;
      result.nll_sum += nll[i];
      ++result.scored_tokens;
    }
  }
  if (!std::isfinite(result.nll_sum)) fail_runtime("[eval ppl] {}: the loss is not finite", name);
  return result;
}

}  // namespace ida::eval
