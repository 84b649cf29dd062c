#include "data/prepare_dataset.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "data/shard_index.h"

namespace ida::data {
namespace {

// What the dataset's shards were made of, in the order of the shards: all text entries, or one shard entry.
struct Group {
  std::vector<std::size_t> entries;  // by source of the shard for text; the one entry for a shard
  std::size_t num_shards = 0;
};

// Tokens by [entry][source of the dataset].
std::vector<std::vector<std::int64_t>> count_entry_tokens(std::size_t num_entries, const std::vector<Group>& groups,
                                                          const TokenDataset& dataset) {
  std::vector<std::vector<std::int64_t>> tokens(num_entries, std::vector<std::int64_t>(dataset.source_names().size(), 0));
  std::int64_t shard_idx = 0;
  std::int64_t first = 0;
  for (const Group& group : groups) {
    for (std::size_t i = 0; i < group.num_shards; ++i, ++shard_idx) {
      const TokenShard& shard = dataset.shard(shard_idx);
      for (std::int64_t d = 0; d < shard.num_documents(); ++d) {
        const auto local = static_cast<std::size_t>(shard.document_source(d));
        const std::size_t entry = group.entries.size() == 1 ? group.entries[0] : group.entries[local];
        tokens[entry][static_cast<std::size_t>(dataset.document(first + d).source())] += shard.document_length(d);
      }
      first += shard.num_documents();
    }
  }
  return tokens;
}

bool up_to_date(const std::string& path, const std::string& key) {
  return path_exists(path) && open_shards(path).front().build_key() == key;
}

}  // namespace

PreparedData prepare_dataset(const std::vector<std::string>& entries, const TokenEncoder& encoder, const std::string& path,
                             const BuildOptions& options) {
  const std::vector<Source> sources = find_sources(entries);
  std::vector<Source> texts;
  Group text_group;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == SourceKind::kShard) continue;
    texts.push_back(sources[i]);
    text_group.entries.push_back(i);
  }
  BuildReport report;
  bool built = false;
  std::vector<TokenShard> shards;
  std::vector<Group> groups;
  const auto add_shards = [&](const std::string& name, Group group) {
    std::vector<TokenShard> opened = open_shards(name);
    group.num_shards = opened.size();
    groups.push_back(std::move(group));
    std::move(opened.begin(), opened.end(), std::back_inserter(shards));
  };
  if (!texts.empty()) {
    const std::string key = build_key_of(texts, hash_files(texts), encoder, options);
    built = !up_to_date(path, key);
    if (built) report = build_shard(texts, encoder, path, key, options);
    add_shards(path, text_group);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == SourceKind::kShard) add_shards(sources[i].path, {.entries = {i}});
  }
  for (const TokenShard& shard : shards) {
    if (shard.tokenizer_hash() != encoder.content_hash()) {
      fail_usage("{}: built with tokenizer {:.12}, this run uses {:.12}; build the shard again", shard.path(),
                 shard.tokenizer_hash(), encoder.content_hash());
    }
  }
  PreparedData prepared{TokenDataset(std::move(shards)), report, built, {}};
  prepared.entry_tokens = count_entry_tokens(sources.size(), groups, prepared.dataset);
  return prepared;
}

std::vector<double> PreparedData::source_weights(const std::vector<double>& entry_weights) const {
  if (entry_weights.empty()) return {};
  if (entry_weights.size() != entry_tokens.size()) {
    fail_usage("[data] weights: {} values for {} entries of train; expected one each", entry_weights.size(),
               entry_tokens.size());
  }
  std::vector<double> weights(dataset.source_names().size(), 0.0);
  for (std::size_t entry = 0; entry < entry_tokens.size(); ++entry) {
    const std::vector<std::int64_t>& tokens = entry_tokens[entry];
    const auto all = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}));
    for (std::size_t s = 0; s < weights.size(); ++s) {
      if (tokens[s] > 0) weights[s] += entry_weights[entry] * static_cast<double>(tokens[s]) / all;
    }
  }
  return weights;
}

}  // namespace ida::data
