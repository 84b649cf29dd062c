// Text generation with a key/value cache: prompts of a batch are prefilled together, then advance one token a step.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eval/forward_model.h"
#include "eval/sampler.h"

namespace ida::eval {

struct GenerateOptions {
  std::int64_t max_new_tokens = 64;
  SamplingOptions sampling = {};
  std::vector<std::int32_t> stop_ids = {};     // a sequence ends when it produces one; the id is not returned
  std::vector<std::string> stop_texts = {};    // ... or when its text contains one; cut before it
  const text::Tokenizer* tokenizer = nullptr;  // needed with stop_texts
  std::int64_t max_positions = 0;              // of prompt and new tokens together; 0: no limit
};

struct GenerateShape {
  std::int64_t num_sequences = 0;
  std::int64_t prompt_tokens = 0;  // of all prompts
  std::int64_t capacity = 0;       // longest prompt + max_new_tokens, at most max_positions where that is not 0
};
GenerateShape generate_shape(const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t max_new_tokens,
                             std::int64_t max_positions = 0);

// Runs prefill and one step of that shape on a dry context, to measure memory.
void plan_generate(const ForwardModel& model, const GenerateShape& shape);

// New ids of each prompt (each at least one id). Errors (kUsage): an empty prompt, ids outside the vocabulary, a prompt
// longer than the RoPE table.
std::vector<std::vector<std::int32_t>> generate(const ForwardModel& model,
                                                const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options);

}  // namespace ida::eval
