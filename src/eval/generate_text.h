// Text in, text out: generation from a model folder.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/generate.h"

namespace ida::eval {

struct TextRequest {
  std::vector<std::string> prompts;
  std::int64_t max_new_tokens = 64;
  SamplingOptions sampling;
  std::vector<std::string> stop_texts;
  std::optional<DType> dtype;  // instead of the checkpoint's own
};

struct TextSample {
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;  // as fed: BOS once where the tokenizer adds one
  std::vector<std::int32_t> ids;         // generated; the token that ended the text is not among them
  std::string text;                      // what `ids` add to the prompt's text, special tokens left out
};

struct TextSamples {
  DType dtype = DType::kF32;
  std::int64_t max_positions = 0;  // of the model: prompt and new tokens together never exceed it
  std::vector<TextSample> samples;
  ops::EngineCounters counters;
};

// The ids of a prompt: BOS exactly once where the tokenizer adds one; an empty prompt starts from BOS, else from EOS.
// Errors (kUsage): nothing to start from.
std::vector<std::int32_t> prompt_ids(const text::Tokenizer& tokenizer, const std::string& prompt);

// A sequence ends at an EOS token of the model or the tokenizer, at a stop text, after max_new_tokens, or at the model's
// last position. Errors (kUsage): no prompt, a prompt that leaves no position for a new token.
TextSamples generate_text(const std::string& model_dir, runtime::Device& device, const ops::Backend& backend,
                          const TextRequest& request);

}  // namespace ida::eval
