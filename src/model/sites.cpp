#include "model/sites.h"

#include <fmt/format.h>

#include <algorithm>

namespace ida::model {

std::vector<ops::GemmSite> gemm_sites(const ModelConfig& c, std::int64_t rows, std::int64_t head_rows) {
  std::vector<ops::GemmSite> sites;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    const auto layer = static_cast<std::int32_t>(i);
    sites.push_back({.name = prefix + "self_attn.qkv_proj",
                     .module = ops::Module::kQkv,
                     .layer = layer,
                     .rows = rows,
                     .in_features = c.hidden_size,
                     .out_features = c.qkv_cols(),
                     .has_bias = c.qkv_bias});
    sites.push_back({.name = prefix + "self_attn.o_proj",
                     .module = ops::Module::kO,
                     .layer = layer,
                     .rows = rows,
                     .in_features = c.q_cols(),
                     .out_features = c.hidden_size,
                     .has_bias = c.o_bias,
                     .adds_residual = true});
    sites.push_back({.name = prefix + "mlp.gate_up_proj",
                     .module = ops::Module::kGateUp,
                     .layer = layer,
                     .rows = rows,
                     .in_features = c.hidden_size,
                     .out_features = 2 * c.intermediate_size,
                     .has_bias = c.mlp_bias});
    sites.push_back({.name = prefix + "mlp.down_proj",
                     .module = ops::Module::kDown,
                     .layer = layer,
                     .rows = rows,
                     .in_features = c.intermediate_size,
                     .out_features = c.hidden_size,
                     .has_bias = c.mlp_bias,
                     .adds_residual = true});
  }
  sites.push_back({.name = "lm_head",
                   .module = ops::Module::kHead,
                   .rows = head_rows,
                   .in_features = c.hidden_size,
                   .out_features = c.vocab_size});
  return sites;
}

std::int64_t head_chunk_rows(const ModelConfig& config, const runtime::DeviceInfo& device) {
  if (device.backend == runtime::BackendKind::kCuda) {
    constexpr std::int64_t kMaxChunkElems = std::int64_t{1} << 29;
    const std::int64_t elems = std::min(kMaxChunkElems, device.memory_bytes / 64 / 2);
    return std::clamp<std::int64_t>(elems / config.vocab_size / 256 * 256, 256, 65536);
  }
  constexpr std::int64_t kChunkElems = std::int64_t{4} << 20;
  return std::clamp<std::int64_t>(kChunkElems / config.vocab_size / 32 * 32, 32, 1024);
}

}  // namespace ida::model
