// An endless, resumable sequence of training rows.
//
// Row k of the sequence is a pure function of (dataset, options, k): it does not depend on how many rows each call takes,
// on threads, or on whether the stream was restored in between. The cursor is two integers. The next epoch is planned on a
// thread of its own once half of the present one is read.
#pragma once
#include <cstdint>
#include <future>
#include <string>

#include "data/batch.h"

namespace ida::data {

// The next row to be read is row `row` of epoch `epoch`.
struct BatchCursor {
  std::int64_t epoch = 0;  // epochs finished
  std::int64_t row = 0;
  bool operator==(const BatchCursor&) const = default;
};

class BatchStream {
 public:
  // `dataset` must outlive the stream. Errors (kUsage): impossible options; no trainable token in the data.
  BatchStream(const TokenDataset& dataset, PackingOptions options);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // The next `num_rows` rows; goes on into the next epoch where the data ends. Reuses the batch's memory.
  void next(std::int64_t num_rows, Batch& batch);
  Batch next(std::int64_t num_rows);

  BatchCursor cursor() const { return cursor_; }
  // Errors (kCorrupt): a cursor outside its epoch. Compare plan_hash() first: a cursor means nothing on other data.
  void restore(const BatchCursor& cursor);
  // SHA-256 over the dataset's fingerprint and every option that decides the row sequence.
  std::string plan_hash() const;

  // Of the epoch the cursor is in; with shuffle or weights the number may differ a little between epochs.
  std::int64_t rows_per_epoch();
  double fill_rate();  // used positions over all, same epoch
  const PackingOptions& options() const { return options_; }
  // Counts of what is left out: empty documents, pieces and rows without a target, over-long documents.
  const PieceTable& pieces() const { return table_; }
  std::int64_t num_dropped_rows();

 private:
  const EpochPlan& plan();
  EpochPlan make_plan(std::int64_t epoch);
  void plan_ahead();

  const TokenDataset* dataset_;
  PackingOptions options_;
  PieceTable table_;
  EpochPlan plan_;
  std::int64_t planned_epoch_ = -1;
  BatchCursor cursor_;
  std::int64_t ahead_epoch_ = -1;  // that ahead_ plans; -1: none
  std::future<EpochPlan> ahead_;   // last: ends before what it reads
};

}  // namespace ida::data
