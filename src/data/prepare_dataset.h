// The dataset of a run: its text entries built into a shard, unless that is up to date, beside the entries that are
// shards.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/build_shard.h"
#include "data/token_dataset.h"
#include "data/token_encoder.h"

namespace ida::data {

struct PreparedData {
  TokenDataset dataset;
  BuildReport report;  // of the build; zero when nothing was built
  bool built = false;  // false: the shard at `path` was already made of this text by this tokenizer, or not needed
  std::vector<std::vector<std::int64_t>> entry_tokens;  // [entries][sources of the dataset]

  // Weights of entries (`[data] weights`) as weights of the dataset's sources; an entry with several sources, which only
  // a shard can be, shares its weight by tokens. Empty stays empty. Errors (kUsage): not one weight an entry.
  std::vector<double> source_weights(const std::vector<double>& entry_weights) const;
};

// The dataset of `[data]` entries: text entries are built into NAME.shard at `path`, unless it is up to date; entries
// that are shards are opened and keep the mask they were built with. Shards must have been made by the same tokenizer
// (kUsage).
PreparedData prepare_dataset(const std::vector<std::string>& entries, const TokenEncoder& encoder, const std::string& path,
                             const BuildOptions& options = {});

}  // namespace ida::data
