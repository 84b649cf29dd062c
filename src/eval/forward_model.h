// A decoder ready for forward-only work: perplexity, generation, verification.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "ops/context.h"
#include "runtime/device.h"
#include "text/tokenizer.h"

namespace ida::eval {

// Borrowed parts of a model that is on a device. Calls take their buffers from the context's arena and give them back.
struct ForwardModel {
  ops::Context& context;
  runtime::Device& device;
  const model::Decoder& decoder;
  const model::ModelBuffers& buffers;
};

// Host arrays of one forward call; all of N entries but the segments.
struct HostTokens {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> positions;
  std::vector<ops::Segment> segments;
};

// Buffers for up to `rows` tokens and `segments` documents, from the arena.
model::BatchViews allocate_batch(runtime::Arena& arena, std::int64_t rows, std::int64_t segments);
// The first tokens.size() columns of `views` filled; the segment table's unused rows are emptied.
model::BatchViews upload(runtime::Device& device, const model::BatchViews& views, const HostTokens& host);

// nll [N] of every label, in nats.
std::vector<float> token_nll(const ForwardModel& model, const HostTokens& host);
// logits [N, V] as f32.
std::vector<float> all_logits(const ForwardModel& model, const HostTokens& host);

// `rows` compute-type values on the device as f32 on the host.
std::vector<float> read_as_f32(runtime::Device& device, const TensorView& view);

struct LoadOptions {
  std::optional<DType> dtype;  // instead of the checkpoint's own
  bool with_tokenizer = true;
  std::int64_t max_positions = 0;  // rows of the RoPE table
};

// A model folder on a device with exactly the memory its calls need. `measure` runs the largest call against a dry
// arena; it is given a ForwardModel whose context is dry.
class LoadedModel {
 public:
  LoadedModel(const std::string& dir, runtime::Device& device, const ops::Backend& backend, const LoadOptions& options,
              const std::function<void(const ForwardModel&)>& measure);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  ForwardModel forward() const { return {*context_, device_, *decoder_, buffers_}; }
  const model::ModelConfig& config() const { return config_; }
  const text::Tokenizer& tokenizer() const;
  DType dtype() const { return decoder_->compute_dtype(); }
  const ops::EngineCounters& counters() const { return context_->calls.gemms; }

 private:
  void allocate_weights(runtime::Arena& arena);

  runtime::Device& device_;
  std::string dir_;
  model::ModelConfig config_;
  model::ParamTable table_;
  std::optional<text::Tokenizer> tokenizer_;
  std::int64_t max_positions_ = 0;
  std::unique_ptr<model::Decoder> decoder_;
  ops::SitePlan sites_;
  void* memory_ = nullptr;
  std::int64_t memory_bytes_ = 0;
  std::unique_ptr<runtime::Arena> arena_;
  std::unique_ptr<ops::Context> context_;
  model::ModelBuffers buffers_;
};

}  // namespace ida::eval
