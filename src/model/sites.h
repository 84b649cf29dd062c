// The decoder's linear maps as GEMM sites, in a fixed order: per layer qkv, o, gate_up, down; the head last.
#pragma once
#include <vector>

#include "model/model_config.h"
#include "ops/site.h"

namespace ida::model {

enum class LayerSite : std::int32_t { kQkv = 0, kO = 1, kGateUp = 2, kDown = 3 };
inline constexpr std::int32_t kSitesPerLayer = 4;

inline ops::SiteId layer_site(std::int64_t layer, LayerSite site) {
  return static_cast<ops::SiteId>(layer * kSitesPerLayer) + static_cast<std::int32_t>(site);
}
inline ops::SiteId head_site(const ModelConfig& config) {
  return static_cast<ops::SiteId>(config.num_hidden_layers * kSitesPerLayer);
}

// `rows` tokens per micro-batch, `head_rows` rows per chunk of the head.
std::vector<ops::GemmSite> gemm_sites(const ModelConfig& config, std::int64_t rows, std::int64_t head_rows);

// Rows of logits computed at once. CPU: about 16 MiB of f32, what a cache holds, a function of the vocabulary alone. CUDA:
// 1 GiB of bf16, or a 64th of a smaller card's memory: every chunk reads and writes the head's whole f32 gradient.
std::int64_t head_chunk_rows(const ModelConfig& config, const runtime::DeviceInfo& device);

}  // namespace ida::model
