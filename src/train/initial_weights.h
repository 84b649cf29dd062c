// Random weights of a new model.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "model/param_spec.h"

namespace ida::train {

// Calls `take(begin, values)` for consecutive parts of parameter `index` of a table; value i is a pure function of
// (seed, index, i).
void for_each_initial_part(const model::ParamSpec& spec, std::size_t index, std::uint64_t seed,
                           const std::function<void(std::int64_t begin, std::span<const float> values)>& take);

}  // namespace ida::train
