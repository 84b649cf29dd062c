// Host values into a model's device buffers.
#pragma once
#include <span>

#include "model/decoder.h"
#include "runtime/device.h"

namespace ida::model {

// f32 values into the flat weight buffer, rounded to its type where that is bf16.
void upload_weights(runtime::Device& device, const TensorView& weights, std::span<const float> values);

// Fills the RoPE tables, for as many positions as they have rows.
void upload_rope_tables(runtime::Device& device, const ModelConfig& config, const ModelBuffers& buffers);

}  // namespace ida::model
