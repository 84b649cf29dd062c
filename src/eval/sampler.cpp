#include "eval/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace ida::eval {

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t stream,
                          std::uint64_t index) {
  if (options.temperature <= 0.0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(order.size()))
    order.resize(static_cast<std::size_t>(options.top_k));
  const double highest = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weight(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    weight[i] = std::exp((static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - highest) / options.temperature);
  double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double kept = 0.0;
  std::size_t num_kept = 0;
  while (num_kept < order.size() && (num_kept == 0 || kept < options.top_p * total)) kept += weight[num_kept++];
  double target = static_cast<double>(bits_at(options.seed, stream, index) >> 11) * 0x1.0p-53 * kept;
  for (std::size_t i = 0; i < num_kept; ++i) {
    target -= weight[i];
    if (target < 0.0) return order[i];
  }
  return order[num_kept - 1];
}

}  // namespace ida::eval
