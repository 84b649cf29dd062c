// One or more token shards read as one sequence of documents.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/token_shard.h"

namespace ida::data {

// One document of a shard. Positions count from the document's start.
class DocumentView {
 public:
  DocumentView(const TokenShard& shard, std::int64_t document, std::int32_t source)
      : shard_(&shard),
        document_(document),
        begin_(shard.document_begin(document)),
        length_(shard.document_length(document)),
        source_(source) {}

  std::int64_t length() const { return length_; }
  std::int32_t source() const { return source_; }  // index into the dataset's source names
  std::int64_t text_bytes() const { return shard_->document_text_bytes(document_); }
  bool has_mask() const { return shard_->has_mask(); }
  std::int32_t token(std::int64_t at) const { return shard_->token(begin_ + at); }
  bool trained(std::int64_t at) const { return shard_->trained(begin_ + at); }
  void copy_tokens(std::int64_t at, std::int64_t count, std::int32_t* out) const {
    shard_->copy_tokens(begin_ + at, count, out);
  }
  // Bytes of text that tokens [0, at) stand for. The document's bytes are spread evenly over its tokens other than BOS
  // and EOS, so the sum over a whole document is exact and a part of it gets its share, rounded.
  std::int64_t text_bytes_before(std::int64_t at) const;

 private:
  const TokenShard* shard_;
  std::int64_t document_;  // within the shard
  std::int64_t begin_;
  std::int64_t length_;
  std::int32_t source_;
};

class TokenDataset {
 public:
  // Shards in the given order. Sources with the same name in several shards are one source.
  // Errors: kUsage when there is no shard or the shards were not made by one tokenizer.
  explicit TokenDataset(std::vector<TokenShard> shards);
  // Of every shard that the names lead to (data/shard_index.h).
  static TokenDataset open(const std::vector<std::string>& paths);

  std::int64_t vocab_size() const { return shards_.front().vocab_size(); }
  const std::string& tokenizer_hash() const { return shards_.front().tokenizer_hash(); }
  std::int64_t num_documents() const { return document_begin_.back(); }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_shards() const { return static_cast<std::int64_t>(shards_.size()); }
  const TokenShard& shard(std::int64_t i) const { return shards_[static_cast<std::size_t>(i)]; }
  const std::vector<std::string>& source_names() const { return source_names_; }
  bool has_mask() const;
  // SHA-256 over the content of all shards in order; independent of where they lie.
  std::string fingerprint() const;

  // Document `document` of all shards, in [0, num_documents()).
  DocumentView document(std::int64_t document) const;

 private:
  std::vector<TokenShard> shards_;
  std::vector<std::int64_t> document_begin_;          // [shards + 1]
  std::vector<std::vector<std::int32_t>> source_of_;  // [shard][source within it]
  std::vector<std::string> source_names_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace ida::data
