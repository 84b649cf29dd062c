#include "data/token_dataset.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"
#include "base/sha256.h"
#include "data/shard_index.h"

namespace ida::data {

TokenDataset::TokenDataset(std::vector<TokenShard> shards) : shards_(std::move(shards)), document_begin_{0} {
  if (shards_.empty()) fail_usage("[data]: no token shard");
  for (const TokenShard& shard : shards_) {
    const TokenShard& first = shards_.front();
    if (shard.tokenizer_hash() != first.tokenizer_hash() || shard.vocab_size() != first.vocab_size()) {
      fail_usage("{}: built with tokenizer {:.12} (vocabulary {}), but {} with {:.12} ({}); build both with one tokenizer",
                 shard.path(), shard.tokenizer_hash(), shard.vocab_size(), first.path(), first.tokenizer_hash(),
                 first.vocab_size());
    }
    document_begin_.push_back(document_begin_.back() + shard.num_documents());
    num_tokens_ += shard.num_tokens();
    std::vector<std::int32_t>& ids = source_of_.emplace_back();
    for (const std::string& name : shard.source_names()) {
      const auto found = std::find(source_names_.begin(), source_names_.end(), name);
      ids.push_back(static_cast<std::int32_t>(found - source_names_.begin()));
      if (found == source_names_.end()) source_names_.push_back(name);
    }
  }
  if (source_names_.size() >= std::numeric_limits<std::uint16_t>::max()) {
    fail_usage("[data]: {} sources, fewer than {} are supported", source_names_.size(),
               std::numeric_limits<std::uint16_t>::max());
  }
}

TokenDataset TokenDataset::open(const std::vector<std::string>& paths) {
  std::vector<TokenShard> shards;
  for (const std::string& path : paths) {
    for (TokenShard& shard : open_shards(path)) shards.push_back(std::move(shard));
  }
  return TokenDataset(std::move(shards));
}

bool TokenDataset::has_mask() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const TokenShard& shard) { return shard.has_mask(); });
}

std::string TokenDataset::fingerprint() const {
  Sha256 hash;
  for (const TokenShard& shard : shards_) hash.update(shard.fingerprint());
  return hash.hex();
}

DocumentView TokenDataset::document(std::int64_t document) const {
  assert(document >= 0 && document < num_documents());
  const auto next = std::upper_bound(document_begin_.begin(), document_begin_.end(), document);
  const auto shard_idx = static_cast<std::size_t>(next - document_begin_.begin() - 1);
  const TokenShard& shard = shards_[shard_idx];
  const std::int64_t within = document - document_begin_[shard_idx];
  return {shard, within, source_of_[shard_idx][static_cast<std::size_t>(shard.document_source(within))]};
}

std::int64_t DocumentView::text_bytes_before(std::int64_t at) const {
  __extension__ using Wide = unsigned __int128;
  const std::int64_t begin = shard_->bos_id() ? 1 : 0;
  const std::int64_t num_text_tokens = length_ - begin - (shard_->eos_id() ? 1 : 0);
  if (num_text_tokens <= 0) return at >= length_ ? text_bytes() : 0;
  const std::int64_t before = std::clamp<std::int64_t>(at - begin, 0, num_text_tokens);
  const auto bytes = static_cast<Wide>(text_bytes());
  return static_cast<std::int64_t>(bytes * static_cast<Wide>(before) / static_cast<Wide>(num_text_tokens));
}

}  // namespace ida::data
