// Random weights of a new model.
#pragma once
#include <vector>

#include "model/param_spec.h"

namespace ida::train {

// [table.total_elems]; value i of parameter p is a pure function of (seed, p, i).
std::vector<float> initial_weights(const model::ParamTable& table, std::uint64_t seed);

}  // namespace ida::train
