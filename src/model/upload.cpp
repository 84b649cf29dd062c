#include "model/upload.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "formats/bf16.h"
#include "model/rope_table.h"

namespace ida::model {

void upload_weights(runtime::Device& device, const TensorView& weights, std::span<const float> values) {
  assert(static_cast<std::int64_t>(values.size()) == weights.numel());
  if (weights.dtype == DType::kF32) return device.copy_to_device(weights.data, values.data(), weights.size_bytes());
  std::vector<bf16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), bf16_from_f32);
  device.copy_to_device(weights.data, rounded.data(), weights.size_bytes());
}

void upload_rope_tables(runtime::Device& device, const ModelConfig& config, const ModelBuffers& buffers) {
  std::vector<float> cos(static_cast<std::size_t>(buffers.rope_cos.numel()));
  std::vector<float> sin(cos.size());
  fill_rope_table(config.rope, config.head_dim, buffers.rope_cos.rows, cos.data(), sin.data());
  device.copy_to_device(buffers.rope_cos.data, cos.data(), buffers.rope_cos.size_bytes());
  device.copy_to_device(buffers.rope_sin.data, sin.data(), buffers.rope_sin.size_bytes());
}

}  // namespace ida::model
