#include "train/validation.h"

#include <numbers>

namespace ida::train {

double SourceLoss::bits_per_byte() const { return nll_sum / std::numbers::ln2 / static_cast<double>(bytes); }

SourceLoss ValidationResult::total() const {
  SourceLoss total{.name = "total"};
  for (const SourceLoss& source : sources) {
    total.nll_sum += source.nll_sum;
    total.targets += source.targets;
    total.bytes += source.bytes;
  }
  return total;
}

ValidationResult validate(Engine& engine, const data::ValidationSet& set) {
  ValidationResult result;
  data::Batch batch;
  std::vector<float> nll;
  for (std::int32_t source = 0; source < set.num_sources(); ++source) {
    SourceLoss loss{.name = set.source_name(source)};
    for (std::int64_t begin = 0; begin < set.num_rows(source); begin += engine.spec().micro_batch_rows) {
      set.rows(source, begin, engine.spec().micro_batch_rows, batch);
      nll.resize(batch.tokens.size());
      engine.evaluate(batch, nll);
      for (std::size_t i = 0; i < nll.size(); ++i)
        if (batch.labels[i] != data::kIgnoreLabel) loss.nll_sum += nll[i];
      loss.targets += batch.num_targets;
      loss.bytes += batch.num_target_bytes;
    }
    if (loss.targets > 0) result.sources.push_back(loss);
  }
  return result;
}

}  // namespace ida::train
