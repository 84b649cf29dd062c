// Rows of tokens for training, laid out flat: position t of row r is index r * seq_len + t.
#pragma once
#include <cstdint>
#include <vector>

#include "data/packing.h"
#include "data/token_dataset.h"

namespace ida::data {

inline constexpr std::int32_t kIgnoreLabel = -100;
inline constexpr std::uint16_t kNoSource = 0xFFFF;

// Tokens [begin, begin + length) by flat index are one attention segment; it never crosses a row.
struct DocumentSpan {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  bool operator==(const DocumentSpan&) const = default;
};

// Positions in no segment (the end of a row that could not be filled) have token 0, label kIgnoreLabel, position 0 and
// source kNoSource.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t seq_len = 0;
  std::vector<std::int32_t> tokens;     // [rows * seq_len]
  std::vector<std::int32_t> labels;     // [rows * seq_len], already shifted: the token to predict here, or kIgnoreLabel
  std::vector<std::int32_t> positions;  // [rows * seq_len], from 0 in each segment
  std::vector<std::uint16_t> source_of_token;  // [rows * seq_len], index into the dataset's source names
  std::vector<DocumentSpan> documents;         // ascending
  std::vector<std::int64_t> row_targets;       // [rows] labels that are not kIgnoreLabel
  std::vector<std::int64_t> row_target_bytes;  // [rows] bytes of text those labels stand for
  std::int64_t num_targets = 0;
  std::int64_t num_target_bytes = 0;

  bool operator==(const Batch&) const = default;
};

// Empties the batch and gives it `rows` rows of padding. Keeps capacity: no allocation when it had that size before.
void reset_batch(Batch& batch, std::int64_t rows, std::int64_t seq_len);

// Fills row `batch_row` of a batch fresh from reset_batch with row `row` of the plan. Rows are filled in ascending order.
void fill_row(const TokenDataset& dataset, const EpochPlan& plan, Packing packing, std::int64_t row, Batch& batch,
              std::int64_t batch_row);

// Rows [begin_row, begin_row + num_rows) of `batch` as a batch of its own.
void split_batch(const Batch& batch, std::int64_t begin_row, std::int64_t num_rows, Batch& out);

// Adds rows of padding up to `rows`, for a model built for a fixed number of rows.
void pad_batch(Batch& batch, std::int64_t rows);

}  // namespace ida::data
