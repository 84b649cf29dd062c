// Private to the decoder's sources: the arguments common to every step of one call, and small helpers.
#pragma once
#include "model/decoder.h"

namespace ida::model {

struct Decoder::Pass {
  ops::Context& context;
  const ModelBuffers& buffers;
  const BatchViews& batch;
  GradientSum sum = GradientSum::kContinue;
  const KvCache* cache = nullptr;
  const std::vector<ops::Segment>* segments = nullptr;  // host copy; only with a cache
  std::int64_t rows() const { return batch.tokens.cols; }
  const float* activation_scale() const { return batch.loss_scale.as<const float>(); }
  const float* weight_scale() const { return batch.loss_scale.empty() ? nullptr : batch.loss_scale.as<const float>() + 1; }
};

// The parts of LayerActivations a forward pass fills; `x_in` is the caller's.
void allocate_attention_part(runtime::Arena& arena, const ModelConfig& config, DType dtype, std::int64_t rows,
                             LayerActivations& a);
void allocate_mlp_part(runtime::Arena& arena, const ModelConfig& config, DType dtype, std::int64_t rows,
                       LayerActivations& a);

// Queries and keys as attention reads them (rotated), and values.
struct QkvViews {
  TensorView q, k, v;
  TensorView qk;  // q | k side by side, for one rotation of both
};
QkvViews qkv_views(const ModelConfig& config, const TensorView& rotated, const TensorView& qkv);

ops::AttentionDesc attention_desc(const ModelConfig& config, std::int64_t layer, DType dtype, const BatchViews& batch,
                                  std::int64_t kv_rows);
ops::RopeDesc rope_desc(const ModelConfig& config, DType dtype, std::int64_t rows, ops::RopeDirection direction);

}  // namespace ida::model
