// Perplexity of texts under a model folder.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/perplexity.h"

namespace ida::eval {

struct NamedText {
  std::string name;
  std::string text;
};

struct EvaluateOptions {
  std::int64_t window = 0;     // tokens; 0: default_window
  std::optional<DType> dtype;  // instead of the checkpoint's own
};

struct TextsResult {
  WindowShape shape;
  DType dtype = DType::kF32;
  std::vector<PerplexityResult> files;
  std::vector<std::string> skipped;  // texts shorter than one window
  PerplexityResult total;            // sums over the files
  std::string note;                  // how the window was chosen, where that is not the plain default
  ops::EngineCounters counters;
};

// 1024 tokens, less where the model has fewer positions (one of which BOS takes) or the longest text fewer tokens.
std::int64_t default_window(std::int64_t max_positions, bool bos, std::int64_t longest_text_tokens);

// Errors (kUsage): no text, every text shorter than the window, a window longer than the model's positions.
TextsResult evaluate_texts(const std::string& model_dir, runtime::Device& device, const ops::Backend& backend,
                           const std::vector<NamedText>& texts, const EvaluateOptions& options);

}  // namespace ida::eval
