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

// Rows of logits computed at once: about 16 MiB of f32, a function of the vocabulary alone.
std::int64_t head_chunk_rows(const ModelConfig& config);

}  // namespace ida::model
