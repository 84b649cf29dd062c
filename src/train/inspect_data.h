// What a run's data looks like to training, as text: counts, then rows or documents with their masks.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"
#include "data/inspect.h"

namespace ida::train {

struct DataReport {
  std::string text;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t masked_tokens = 0;  // that may not be a target
  std::int64_t vocab_size = 0;
  std::vector<std::string> sources;
  std::int64_t rows_per_epoch = 0;  // of a configuration; 0 for a shard
  double fill_rate = 0.0;           // used positions over all
};

// The first documents of a shard. Errors (kUsage): the shard was made by another tokenizer.
DataReport inspect_shard(const std::string& shard, const std::string& tokenizer, const data::InspectOptions& options);

// The first rows that training would read. Tokenizer and shards are made in a temporary folder, which is removed; a
// tokenizer that the run already has is used.
DataReport inspect_run_data(const config::RunConfig& config, const data::InspectOptions& options);

}  // namespace ida::train
