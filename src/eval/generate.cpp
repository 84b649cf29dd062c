#include "eval/generate.h"

#include <algorithm>

#include "base/error.h"

namespace ida::eval {
namespace {

using runtime::MemoryClass;

// Buffers of one generation and the state of its sequences.
class Generation {
 public:
  Generation(const ForwardModel& model, const GenerateShape& shape) : model_(model), shape_(shape) {
    const model::ModelConfig& c = model.decoder.config();
    runtime::Arena& arena = model.context.arena;
    const DType dtype = model.decoder.compute_dtype();
    const std::int64_t rows = std::max(shape.prompt_tokens, shape.num_sequences);
    for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      cache_.keys.push_back(
          arena.allocate(dtype, shape.num_sequences * shape.capacity, c.kv_cols(), MemoryClass::kActivations, "keys"));
      cache_.values.push_back(
          arena.allocate(dtype, shape.num_sequences * shape.capacity, c.kv_cols(), MemoryClass::kActivations, "values"));
    }
    batch_ = allocate_batch(arena, rows, shape.num_sequences);
    hidden_ = arena.allocate(dtype, rows, c.hidden_size, MemoryClass::kActivations, "hidden");
    last_ = arena.allocate(dtype, shape.num_sequences, c.hidden_size, MemoryClass::kActivations, "last_hidden");
    logits_ = arena.allocate(dtype, shape.num_sequences, c.vocab_size, MemoryClass::kActivations, "logits");
  }

  // Logits [segments, V] of the last token of each segment; empty on a dry context.
  std::vector<float> forward(const HostTokens& host) {
    const bool dry = model_.context.dry();
    const auto rows = static_cast<std::int64_t>(host.tokens.size());
    const auto num_segments = static_cast<std::int64_t>(host.segments.size());
    model::BatchViews batch = batch_;
    if (!dry) batch = upload(model_.device, batch_, host);
    for (TensorView* view : {&batch.tokens, &batch.labels, &batch.positions}) *view = view->col_slice(0, rows);
    const TensorView hidden = hidden_.row_slice(0, rows);
    model_.decoder.forward_hidden(model_.context, model_.buffers, batch, host.segments, &cache_, hidden);
    const DType dtype = model_.decoder.compute_dtype();
    for (std::int64_t i = 0; i < num_segments; ++i) {
      const ops::Segment& s = host.segments[static_cast<std::size_t>(i)];
      ops::convert(model_.context, {.rows = 1, .cols = hidden.cols, .from = dtype, .to = dtype},
                   {.x = hidden.row_slice(s.q_begin + s.q_len - 1, 1), .y = last_.row_slice(i, 1)});
    }
    const TensorView logits = logits_.row_slice(0, num_segments);
    model_.decoder.logits(model_.context, model_.buffers, last_.row_slice(0, num_segments), logits);
    return dry ? std::vector<float>{} : read_as_f32(model_.device, logits);
  }

  std::int32_t cache_begin(std::int64_t sequence) const { return static_cast<std::int32_t>(sequence * shape_.capacity); }

 private:
  const ForwardModel& model_;
  GenerateShape shape_;
  model::KvCache cache_;
  model::BatchViews batch_;
  TensorView hidden_, last_, logits_;
};

struct Sequence {
  std::int64_t index = 0;   // in the batch
  std::int64_t limit = 0;   // of new tokens
  std::int64_t length = 0;  // tokens in the cache
  std::int32_t next = 0;    // token to feed
  std::vector<std::int32_t> output;
};

void append(HostTokens& host, const std::vector<std::int32_t>& tokens, std::int64_t first_position,
            std::int32_t cache_begin) {
  const auto q_begin = static_cast<std::int32_t>(host.tokens.size());
  const auto length = static_cast<std::int32_t>(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    host.tokens.push_back(tokens[i]);
    host.labels.push_back(-100);
    host.positions.push_back(static_cast<std::int32_t>(first_position) + static_cast<std::int32_t>(i));
  }
  host.segments.push_back({.q_begin = q_begin,
                           .q_len = length,
                           .kv_begin = cache_begin,
                           .kv_len = static_cast<std::int32_t>(first_position) + length});
}

// True when the sequence is finished; trims what must not be returned.
bool finished(Sequence& s, const GenerateOptions& options) {
  if (std::find(options.stop_ids.begin(), options.stop_ids.end(), s.next) != options.stop_ids.end()) return true;
  s.output.push_back(s.next);
  if (!options.stop_texts.empty()) {
    const std::string text = options.tokenizer->decode(s.output);
    for (const std::string& stop : options.stop_texts) {
      const std::size_t at = text.find(stop);
      if (stop.empty() || at == std::string::npos) continue;
      while (!s.output.empty() && options.tokenizer->decode(s.output).size() > at) s.output.pop_back();
      return true;
    }
  }
  return static_cast<std::int64_t>(s.output.size()) >= s.limit;
}

void check_prompts(const ForwardModel& model, const std::vector<std::vector<std::int32_t>>& prompts,
                   std::int64_t capacity) {
  if (prompts.empty()) fail_usage("[generate] no prompt given");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty())
      fail_usage("[generate] prompt {} has no token: give a text, or a tokenizer with a BOS token", i);
    for (const std::int32_t id : prompts[i])
      if (id < 0 || id >= model.decoder.config().vocab_size)
        fail_usage("[generate] prompt {}: token {} is outside the vocabulary of {}", i, id,
                   model.decoder.config().vocab_size);
  }
  if (capacity > model.buffers.rope_cos.rows)
    fail_usage(
        "[generate] prompt and new tokens need {} positions but {} are there: lower --max-new-tokens or shorten the prompt",
        capacity, model.buffers.rope_cos.rows);
}

}  // namespace

GenerateShape generate_shape(const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t max_new_tokens,
                             std::int64_t max_positions) {
  GenerateShape shape{.num_sequences = static_cast<std::int64_t>(prompts.size())};
  for (const auto& prompt : prompts) {
    shape.prompt_tokens += static_cast<std::int64_t>(prompt.size());
    const auto length = static_cast<std::int64_t>(prompt.size());
    const std::int64_t room = max_positions > 0 ? std::max(max_positions, length) : length + max_new_tokens;
    shape.capacity = std::max(shape.capacity, std::min(length + max_new_tokens, room));
  }
  return shape;
}

void plan_generate(const ForwardModel& model, const GenerateShape& shape) {
  runtime::Arena::Scope scope(model.context.arena);
  Generation generation(model, shape);
  HostTokens prefill;
  const std::int64_t first = shape.prompt_tokens - (shape.num_sequences - 1);
  for (std::int64_t i = 0; i < shape.num_sequences; ++i)
    append(prefill, std::vector<std::int32_t>(static_cast<std::size_t>(i == 0 ? first : 1)), 0, generation.cache_begin(i));
  generation.forward(prefill);
  HostTokens step;
  for (std::int64_t i = 0; i < shape.num_sequences; ++i) append(step, {0}, shape.capacity - 1, generation.cache_begin(i));
  generation.forward(step);
}

std::vector<std::vector<std::int32_t>> generate(const ForwardModel& model,
                                                const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options) {
  const GenerateShape shape = generate_shape(prompts, options.max_new_tokens, options.max_positions);
  check_prompts(model, prompts, shape.capacity);
  std::vector<std::vector<std::int32_t>> outputs(prompts.size());
  if (options.max_new_tokens <= 0) return outputs;
  runtime::Arena::Scope scope(model.context.arena);
  Generation generation(model, shape);
  std::vector<Sequence> active;
  HostTokens host;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const auto length = static_cast<std::int64_t>(prompts[i].size());
    append(host, prompts[i], 0, generation.cache_begin(index));
    active.push_back({.index = index,
                      .limit = std::min(options.max_new_tokens, shape.capacity - length),
                      .length = length,
                      .next = 0,
                      .output = {}});
  }
  const std::int64_t vocab = model.decoder.config().vocab_size;
  while (!active.empty()) {
    const std::vector<float> logits = generation.forward(host);
    host = {};
    std::vector<Sequence> remaining;
    for (std::size_t i = 0; i < active.size(); ++i) {
      Sequence& s = active[i];
      const std::span<const float> row(logits.data() + static_cast<std::int64_t>(i) * vocab,
                                       static_cast<std::size_t>(vocab));
      s.next =
          sample_token(row, options.sampling, static_cast<std::uint64_t>(s.index), static_cast<std::uint64_t>(s.length));
      if (finished(s, options)) {
        outputs[static_cast<std::size_t>(s.index)] = std::move(s.output);
        continue;
      }
      append(host, {s.next}, s.length, generation.cache_begin(s.index));
      ++s.length;
      remaining.push_back(std::move(s));
    }
    active = std::move(remaining);
  }
  return outputs;
}

}  // namespace ida::eval
