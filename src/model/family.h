// Decoder families as data. A family is one row: how its config.json is named, which optional keys it reads, what it
// assumes when a key is absent, and the switches it fixes. Facts: the configuration and modelling files of Hugging Face
// transformers 4.56 and 5.16.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ida::model {

enum class WindowRule : std::uint8_t {
  kNone,        // full attention on every layer
  kEveryLayer,  // `sliding_window` on every layer unless null
  kByLayer      // `layer_types`, or layers from `max_window_layers` on, when `use_sliding_window`
};

enum class BiasRule : std::uint8_t {
  kNever,  // the key is accepted only as false
  kByKey,  // `attention_bias` / `mlp_bias`, default false
  kAlways  // fixed on, no key
};

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  BiasRule qkv_bias = BiasRule::kNever;
  BiasRule o_bias = BiasRule::kNever;
  BiasRule mlp_bias = BiasRule::kNever;
  bool qk_norm = false;
  WindowRule window = WindowRule::kNone;
  // What an absent key means.
  std::int64_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
  std::int64_t default_max_position_embeddings = 2048;
  std::int64_t default_sliding_window = 0;
  std::int64_t default_max_window_layers = 0;
  std::int64_t default_bos_token_id = -1;
  std::int64_t default_eos_token_id = -1;
};

std::span<const Family> families();
// The row of `model_type`; kUsage naming the known ones when there is none. `origin` starts the message.
const Family& find_family(std::string_view model_type, std::string_view origin);

}  // namespace ida::model
