// Validation losses: every row of the validation set once, by source, in nats per token and bits per byte.
#pragma once
#include <string>
#include <vector>

#include "data/validation_set.h"
#include "train/engine.h"

namespace ida::train {

struct SourceLoss {
  std::string name;
  double nll_sum = 0.0;
  std::int64_t targets = 0;
  std::int64_t bytes = 0;
  double nats_per_token() const { return nll_sum / static_cast<double>(targets); }
  double bits_per_byte() const;
};

struct ValidationResult {
  std::vector<SourceLoss> sources;  // those with a target
  SourceLoss total() const;         // token-weighted
};

ValidationResult validate(Engine& engine, const data::ValidationSet& set);

}  // namespace ida::train
