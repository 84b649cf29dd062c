// Batches and datasets as text, for `data inspect`.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/batch_stream.h"

namespace ida::data {

// The text of some ids, special tokens by name; any bytes.
using DecodeFn = std::function<std::string(std::span<const std::int32_t> ids)>;

struct InspectOptions {
  std::int64_t max_rows = 4;
  std::int64_t max_tokens_per_segment = 200;  // the rest is counted
  bool ids = false;                           // also print the ids
};

// Tokens that the loss masks keep from being a target.
std::int64_t count_masked_tokens(const TokenDataset& dataset);

// Counts of the dataset: shards, tokenizer, documents, tokens and bytes per source.
std::string describe_dataset(const TokenDataset& dataset);

// What a stream makes of it: rows an epoch, fill rate, what is left out.
std::string describe_stream(BatchStream& stream);

// One document, its ids decoded. Text between [[ and ]] may not be a target (loss mask); so it is in render_batch.
std::string render_document(const TokenDataset& dataset, std::int64_t document_idx, const DecodeFn& decode,
                            const InspectOptions& options = {});

// Rows of a batch with every segment: its tokens, those that are no target between [[ and ]] (the first of a segment
// always is), the label of the last position after "->", and the unused tail.
std::string render_batch(const Batch& batch, const TokenDataset& dataset, const DecodeFn& decode,
                         const InspectOptions& options = {});

// Printable on one line: control characters, backslashes and bytes that are not UTF-8 as escapes.
std::string escape_text(std::string_view text);

}  // namespace ida::data
