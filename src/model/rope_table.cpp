#include "model/rope_table.h"

#include <cmath>
#include <numbers>

namespace ida::model {
namespace {

// llama3: long wavelengths are divided by `factor`, short ones kept, those between blended linearly.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const double length = static_cast<double>(rope.original_max_position_embeddings);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength > length / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < length / rope.high_freq_factor) return frequency;
  const double smooth = (length / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_inv_freq(const RopeConfig& rope, std::int64_t rotary_dim) {
  std::vector<float> inv_freq(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
    double frequency = static_cast<float>(1.0 / std::pow(rope.theta, exponent));
    if (rope.type == RopeType::kLlama3) frequency = llama3_frequency(rope, frequency);
    inv_freq[i] = static_cast<float>(frequency);
  }
  return inv_freq;
}

void fill_rope_table(const RopeConfig& rope, std::int64_t rotary_dim, std::int64_t num_positions, float* cos, float* sin) {
  const std::vector<float> inv_freq = rope_inv_freq(rope, rotary_dim);
  for (std::int64_t position = 0; position < num_positions; ++position) {
    for (const float frequency : inv_freq) {
      const float angle = static_cast<float>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(static_cast<double>(angle)));
      *sin++ = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace ida::model
