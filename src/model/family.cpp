#include "model/family.h"

#include <array>

#include "base/error.h"
#include "base/json.h"

namespace ida::model {
namespace {

constexpr std::array<Family, 4> kFamilies = {{
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .qkv_bias = BiasRule::kByKey,
     .o_bias = BiasRule::kByKey,
     .mlp_bias = BiasRule::kByKey,
     .default_max_position_embeddings = 2048,
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .window = WindowRule::kEveryLayer,
     .default_max_position_embeddings = 131072,
     .default_sliding_window = 4096,
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = BiasRule::kAlways,
     .window = WindowRule::kByLayer,
     .default_max_position_embeddings = 32768,
     .default_sliding_window = 4096,
     .default_max_window_layers = 28},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qkv_bias = BiasRule::kByKey,
     .o_bias = BiasRule::kByKey,
     .qk_norm = true,
     .window = WindowRule::kByLayer,
     .default_head_dim = 128,
     .default_max_position_embeddings = 32768,
     .default_sliding_window = 4096,
     .default_max_window_layers = 28},
}};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& find_family(std::string_view model_type, std::string_view origin) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family;
    known += known.empty() ? "" : ", ";
    known += family.model_type;
  }
  fail_usage("{}: model_type '{}' is not implemented; implemented: {}", origin, printable_excerpt(model_type), known);
}

}  // namespace ida::model
