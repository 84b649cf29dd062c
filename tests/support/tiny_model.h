// Small random models and batches for tests that run the whole decoder.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "train/engine.h"

namespace ida::testing {

inline model::ModelConfig tiny_config() {
  model::ModelConfig c;
  c.vocab_size = 61;
  c.hidden_size = 48;
  c.intermediate_size = 80;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.max_position_embeddings = 256;
  c.initializer_range = 0.08;
  c.layer_window = {0, 0};
  return c;
}

// Every switch on: tied, biases, q/k norm, a window on one layer, llama3 frequencies.
inline model::ModelConfig busy_config() {
  model::ModelConfig c = tiny_config();
  c.tie_word_embeddings = true;
  c.qkv_bias = c.o_bias = c.mlp_bias = true;
  c.qk_norm = true;
  c.layer_window = {5, 0};
  c.rope = {.type = model::RopeType::kLlama3,
            .theta = 5e5,
            .factor = 8.0,
            .low_freq_factor = 1.0,
            .high_freq_factor = 4.0,
            .original_max_position_embeddings = 32};
  return c;
}

// Norm weights away from 1 and biases away from 0, so that a forgotten one is seen.
inline std::vector<float> random_masters(const model::ParamTable& table, std::uint64_t seed) {
  std::vector<float> flat(static_cast<std::size_t>(table.total_elems), 0.0f);
  for (std::size_t p = 0; p < table.params.size(); ++p) {
    const model::ParamSpec& spec = table.params[p];
    for (std::int64_t i = 0; i < spec.numel(); ++i) {
      const float noise = normal_at(seed, p, static_cast<std::uint64_t>(i));
      flat[static_cast<std::size_t>(spec.offset_elems + i)] =
          spec.init == model::InitKind::kOnes ? 1.0f + 0.2f * noise : (spec.is_vector ? 0.1f : 0.08f) * noise;
    }
  }
  return flat;
}

// Rows of documents of the given lengths; what is left of a row is padding outside every segment. Labels are the next
// token of the document; of the last token there is none.
inline data::Batch make_batch(const std::vector<std::vector<std::int64_t>>& documents_of_row, std::int64_t seq_len,
                              std::int64_t vocab, std::uint64_t seed) {
  data::Batch batch;
  data::reset_batch(batch, static_cast<std::int64_t>(documents_of_row.size()), seq_len);
  std::uint64_t drawn = 0;
  for (std::size_t row = 0; row < documents_of_row.size(); ++row) {
    std::int64_t at = static_cast<std::int64_t>(row) * seq_len;
    std::int64_t targets = 0;
    for (const std::int64_t length : documents_of_row[row]) {
      batch.documents.push_back({.begin = at, .length = length});
      for (std::int64_t i = 0; i < length; ++i) {
        const auto index = static_cast<std::size_t>(at + i);
        batch.tokens[index] = static_cast<std::int32_t>(bounded_at(seed, 1, drawn++, static_cast<std::uint64_t>(vocab)));
        batch.positions[index] = static_cast<std::int32_t>(i);
        batch.source_of_token[index] = 0;
      }
      for (std::int64_t i = 0; i + 1 < length; ++i)
        batch.labels[static_cast<std::size_t>(at + i)] = batch.tokens[static_cast<std::size_t>(at + i + 1)];
      targets += length - 1;
      at += length;
    }
    batch.row_targets[row] = targets;
    batch.num_targets += targets;
  }
  return batch;
}

class EngineFixture {
 public:
  EngineFixture() : backend_(cpu::make_cpu_backend(device_.info())) {}

  train::EngineSpec spec(const model::ModelConfig& config, const data::Batch& batch, DType dtype = DType::kF32) const {
    train::EngineSpec s;
    s.model = config;
    s.recipe = precision::recipe_by_name(dtype == DType::kF32 ? "fp32" : "bf16");
    s.optimizer.clip_norm = 0.0;
    s.micro_batch_rows = batch.rows;
    s.seq_len = batch.seq_len;
    return s;
  }

  struct Gradient {
    train::StepResult result;
    std::vector<float> values;
  };

  Gradient gradient(const train::EngineSpec& s, const data::Batch& batch, std::uint64_t seed = 7) {
    train::Engine engine(s, device_, backend_);
    engine.set_masters(random_masters(engine.table(), seed));
    Gradient g{.result = engine.accumulate(batch), .values = {}};
    g.values.resize(static_cast<std::size_t>(engine.table().total_elems));
    engine.read_buffer(engine.buffers().grads, g.values.data());
    return g;
  }

  // nll of every position of the batch.
  std::vector<float> nll(const train::EngineSpec& s, const data::Batch& batch, std::uint64_t seed = 7) {
    train::Engine engine(s, device_, backend_);
    engine.set_masters(random_masters(engine.table(), seed));
    std::vector<float> values(batch.tokens.size());
    engine.evaluate(batch, values);
    return values;
  }

  runtime::Device& device() { return device_; }
  const ops::Backend& backend() const { return backend_; }

 private:
  cpu::CpuDevice device_;
  ops::Backend backend_;
};

inline double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace ida::testing
