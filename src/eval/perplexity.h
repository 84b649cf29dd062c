// Perplexity of a text: windows of N consecutive tokens, each preceded by BOS where the tokenizer adds one, an incomplete
// last window dropped. With BOS all N tokens of a window are scored, without it N - 1.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/forward_model.h"

namespace ida::eval {

struct PerplexityResult {
  std::string name;
  std::int64_t text_tokens = 0;
  std::int64_t windows = 0;
  std::int64_t scored_tokens = 0;
  std::int64_t scored_bytes = 0;
  double nll_sum = 0.0;

  double mean_nll() const { return nll_sum / static_cast<double>(scored_tokens); }
  double perplexity() const;
  double bits_per_byte() const;
};

// Windows of one call; the inputs of all have the same length.
struct WindowShape {
  std::int64_t window = 0;  // tokens of text in a window
  bool bos = false;
  std::int64_t windows_per_call = 1;
  std::int64_t input_tokens() const { return window + (bos ? 1 : 0); }
};

// As many windows as fit about 2048 tokens.
WindowShape window_shape(std::int64_t window, bool bos);
void plan_perplexity(const ForwardModel& model, const WindowShape& shape);

// Errors (kUsage): fewer tokens than one window; a window without a scored token.
PerplexityResult perplexity(const ForwardModel& model, const text::Tokenizer& tokenizer, std::string_view text,
                            std::string_view name, const WindowShape& shape);

}  // namespace ida::eval
