// Cosine and sine tables of rotary embedding: inv_freq[i] = theta^(-2i/d) in f32 (llama3 rescales it by wavelength),
// angle = position * inv_freq in f32, table entries f32. Never rounded below f32: a bf16 angle is off by up to pi at
// position 4096. Source: transformers modeling_rope_utils.py (formulas).
#pragma once
#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace ida::model {

// [rotary_dim / 2]
std::vector<float> rope_inv_freq(const RopeConfig& rope, std::int64_t rotary_dim);

// Fills cos and sin, each [num_positions, rotary_dim / 2] f32 row-major.
void fill_rope_table(const RopeConfig& rope, std::int64_t rotary_dim, std::int64_t num_positions, float* cos, float* sin);

}  // namespace ida::model
