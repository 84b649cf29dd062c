// Every row of a dataset once, source by source, in the order of the shards: for losses in nats and bits per byte.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"

namespace ida::data {

class ValidationSet {
 public:
  // `dataset` must outlive the set; options.shuffle, seed and weights are not used.
  // Errors (kUsage): impossible options; no trainable token at all.
  ValidationSet(const TokenDataset& dataset, const PackingOptions& options);

  std::int32_t num_sources() const { return static_cast<std::int32_t>(plans_.size()); }
  const std::string& source_name(std::int32_t source) const {
    return dataset_->source_names()[static_cast<std::size_t>(source)];
  }
  // 0 for a source without a trainable token.
  std::int64_t num_rows(std::int32_t source) const { return plans_[static_cast<std::size_t>(source)].num_rows(); }
  // Rows [begin, begin + count) of a source, count cut to what there is. Reuses the batch's memory.
  void rows(std::int32_t source, std::int64_t begin, std::int64_t count, Batch& batch) const;

 private:
  const TokenDataset* dataset_;
  PackingOptions options_;
  std::vector<EpochPlan> plans_;
};

}  // namespace ida::data
