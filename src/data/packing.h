// Pieces -> rows of seq_len tokens, as a plan that is a pure function of (dataset, options, epoch).
//
// documents: a row starts with the piece that has waited longest and takes the longest piece that still fits among the
//   next `look_ahead`, so the epoch's order is kept roughly and padding stays small. A piece is one segment of the row.
// stream: the documents are one long sequence, cut every seq_len tokens; a row is one segment and labels cross document
//   boundaries. With shuffle the rows are put in a seeded order as well.
#pragma once
#include <cstdint>
#include <vector>

#include "data/pieces.h"

namespace ida::data {

// Where the label of a slice's last token comes from.
enum class LastLabel : std::uint8_t { kNone, kSameDocument, kNextSlice };

// Consecutive tokens of one document.
struct Slice {
  std::int64_t document = 0;
  std::int64_t begin = 0;
  std::int32_t length = 0;
  LastLabel last_label = LastLabel::kNone;
};

struct EpochPlan {
  std::vector<Slice> slices;            // in packed order
  std::vector<std::int64_t> row_begin;  // [packed rows + 1], into slices
  std::vector<std::int64_t> row_order;  // the packed row that each row of the epoch is
  std::int64_t num_tokens = 0;          // in the rows that are kept
  std::int64_t num_dropped_rows = 0;    // rows without any target (stream packing)

  std::int64_t num_rows() const { return static_cast<std::int64_t>(row_order.size()); }
  // Used positions over all positions.
  double fill_rate(std::int64_t seq_len) const;
};

EpochPlan plan_epoch(const TokenDataset& dataset, const PieceTable& table, const PackingOptions& options,
                     std::int64_t epoch);
// The rows of one source alone, every piece once, not shuffled.
EpochPlan plan_source(const TokenDataset& dataset, const PieceTable& table, const PackingOptions& options,
                      std::int32_t source);

}  // namespace ida::data
