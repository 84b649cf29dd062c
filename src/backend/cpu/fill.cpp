#include "backend/cpu/fill.h"

#include "base/parallel.h"
#include "base/rng.h"

namespace ida::cpu {
namespace {

ops::Refusal any_size(const ops::FillDesc&, const runtime::DeviceInfo&) { return ops::kAccepted; }

void fill_definition(const ops::FillDesc& desc, const ops::FillArgs& args, const ops::Launch&) {
  constexpr std::int64_t kPairsPerPiece = 1 << 14;
  float* y = args.y.as<float>();
  parallel_for((desc.size + 1) / 2, kPairsPerPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const auto [even, odd] = args.std_dev == 0.0f
                                   ? std::pair{0.0f, 0.0f}
                                   : normal_pair_at(args.seed, args.stream, static_cast<std::uint64_t>(pair));
      y[2 * pair] = args.value + args.std_dev * even;
      if (2 * pair + 1 < desc.size) y[2 * pair + 1] = args.value + args.std_dev * odd;
    }
  });
}

}  // namespace

ops::FillList fill_impls() { return {{"cpu.definition", any_size, nullptr, fill_definition}}; }

}  // namespace ida::cpu
