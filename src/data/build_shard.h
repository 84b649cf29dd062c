// Text sources -> one token shard. A document becomes [BOS] ids [EOS]: BOS when the tokenizer adds one, EOS when it has
// one, neither doubled when the text's own ids already have it there. Documents keep the order of the sources
// whatever the number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/token_dataset.h"
#include "data/token_encoder.h"

namespace ida::data {

struct BuildReport {
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t text_bytes = 0;
  std::int64_t num_empty = 0;     // documents without text, skipped
  std::int64_t num_binary = 0;    // files with a NUL byte, skipped
  std::int64_t num_left_out = 0;  // hidden names, links and special files of folders
  std::string to_string() const;  // one line
};

using BuildProgress = std::function<void(const BuildReport& so_far)>;

// Writes the shard at `path` (replaced only when complete; missing folders are made). `progress` may be empty; it is called
// from this thread. Errors: kUsage when the sources hold no document; those of find_sources and DocumentText; kRuntime for
// I/O.
BuildReport build_shard(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                        const BuildProgress& progress = {});

// SHA-256 of everything a shard depends on: format version, tokenizer, and the content of the sources.
std::string build_key_of(const std::vector<Source>& sources, const TokenEncoder& encoder);

struct PreparedData {
  TokenDataset dataset;
  BuildReport report;  // of the build; zero when nothing was built
  bool built = false;  // false: the shard at `path` was already made of this text by this tokenizer, or not needed
  std::vector<std::vector<std::int64_t>> entry_tokens;  // [entries][sources of the dataset]

  // Weights of entries (`[data] weights`) as weights of the dataset's sources; an entry with several sources, which only
  // a shard can be, shares its weight by tokens. Empty stays empty. Errors (kUsage): not one weight an entry.
  std::vector<double> source_weights(const std::vector<double>& entry_weights) const;
};

// The dataset of `[data]` entries: text entries are built into one shard at `path`, unless it is up to date; entries
// that are shards are opened. Shards must have been made by the same tokenizer (kUsage).
PreparedData prepare_dataset(const std::vector<std::string>& entries, const TokenEncoder& encoder, const std::string& path,
                             const BuildProgress& progress = {});

}  // namespace ida::data
