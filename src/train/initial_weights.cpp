#include "train/initial_weights.h"

#include "base/parallel.h"
#include "base/rng.h"

namespace ida::train {

std::vector<float> initial_weights(const model::ParamTable& table, std::uint64_t seed) {
  std::vector<float> flat(static_cast<std::size_t>(table.total_elems), 0.0f);
  for (std::size_t p = 0; p < table.params.size(); ++p) {
    const model::ParamSpec& spec = table.params[p];
    float* out = flat.data() + spec.offset_elems;
    parallel_for(spec.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        switch (spec.init) {
          case model::InitKind::kNormal:
            out[i] = static_cast<float>(spec.init_std) * normal_at(seed, p, static_cast<std::uint64_t>(i));
            break;
          case model::InitKind::kOnes: out[i] = 1.0f; break;
          case model::InitKind::kZeros: out[i] = 0.0f; break;
        }
      }
    });
  }
  return flat;
}

}  // namespace ida::train
