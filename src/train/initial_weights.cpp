#include "train/initial_weights.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "base/rng.h"

namespace ida::train {

void for_each_initial_part(const model::ParamSpec& spec, std::size_t index, std::uint64_t seed,
                           const std::function<void(std::int64_t begin, std::span<const float> values)>& take) {
  constexpr std::int64_t kPartElems = std::int64_t{1} << 24;  // even, so that no pair of normal values is cut
  std::vector<float> part(static_cast<std::size_t>(std::min(kPartElems, spec.numel())));
  const auto std_dev = static_cast<float>(spec.init_std);
  for (std::int64_t begin = 0; begin < spec.numel(); begin += kPartElems) {
    const std::int64_t size = std::min(kPartElems, spec.numel() - begin);
    if (spec.init != model::InitKind::kNormal) {
      std::fill_n(part.begin(), size, spec.init == model::InitKind::kOnes ? 1.0f : 0.0f);
    } else {
      parallel_for((size + 1) / 2, 1 << 15, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t pair = first; pair < last; ++pair) {
          const auto [even, odd] = normal_pair_at(seed, index, static_cast<std::uint64_t>(begin / 2 + pair));
          part[static_cast<std::size_t>(2 * pair)] = std_dev * even;
          if (2 * pair + 1 < size) part[static_cast<std::size_t>(2 * pair + 1)] = std_dev * odd;
        }
      });
    }
    take(begin, std::span<const float>(part).first(static_cast<std::size_t>(size)));
  }
}

}  // namespace ida::train
