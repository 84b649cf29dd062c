// A decoder's shape and switches after every spelling was resolved. Names are Hugging Face's. A family (llama, mistral,
// qwen2, qwen3) is a row of data in family.cpp that says which keys it reads and which switches they set; the decoder
// itself knows only these fields.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace ida::model {

enum class RopeType : std::uint8_t { kDefault, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  // llama3 only
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;
  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  std::string model_type = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;                   // llama attention_bias, qwen2 always, qwen3 attention_bias
  bool o_bias = false;                     // llama and qwen3 attention_bias
  bool mlp_bias = false;                   // llama mlp_bias
  bool qk_norm = false;                    // qwen3: RMSNorm of each q and k head before RoPE
  std::vector<std::int64_t> layer_window;  // [num_hidden_layers]; 0 = full attention
  RopeConfig rope;
  DType dtype = DType::kF32;       // of the checkpoint
  std::int64_t bos_token_id = -1;  // -1: none
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t pad_token_id = -1;
  bool operator==(const ModelConfig&) const = default;

  std::int64_t q_cols() const { return num_attention_heads * head_dim; }
  std::int64_t kv_cols() const { return num_key_value_heads * head_dim; }
  std::int64_t qkv_cols() const { return q_cols() + 2 * kv_cols(); }
};

}  // namespace ida::model
