#include "data/batch_stream.h"

#include <cassert>

#include "base/error.h"
#include "base/sha256.h"

namespace ida::data {
namespace {

// A weighted epoch of a tiny dataset can be empty by rounding; this many in a row means there is nothing to train on.
constexpr std::int64_t kMaxEmptyEpochs = 1000;

bool has_pieces(const PieceTable& table, const PackingOptions& options) {
  for (std::size_t s = 0; s < table.source_tokens.size(); ++s) {
    const bool wanted = options.weights.empty() || options.weights[s] > 0.0;
    if (wanted && table.source_begin[s + 1] > table.source_begin[s]) return true;
  }
  return false;
}

}  // namespace

BatchStream::BatchStream(const TokenDataset& dataset, PackingOptions options)
    : dataset_(&dataset), options_(std::move(options)) {
  check_packing_options(options_, dataset);
  table_ = make_pieces(dataset, options_);
  if (!has_pieces(table_, options_)) {
    fail_usage(
        "[data]: no trainable token in {} documents ({} empty, {} pieces without a target, {} longer than seq_len {})",
        dataset.num_documents(), table_.num_empty, table_.num_untrained, table_.num_long, options_.seq_len);
  }
  plan();
}

const EpochPlan& BatchStream::plan() {
  if (planned_epoch_ == cursor_.epoch) return plan_;
  for (std::int64_t empty = 0; empty < kMaxEmptyEpochs; ++empty, ++cursor_.epoch) {
    plan_ = make_plan(cursor_.epoch);
    planned_epoch_ = cursor_.epoch;
    if (plan_.num_rows() > 0) return plan_;
    if (options_.weights.empty()) break;
  }
  fail_usage("[data]: no row with a trainable token in {} documents ({} rows without a target)", dataset_->num_documents(),
             plan_.num_dropped_rows);
}

EpochPlan BatchStream::make_plan(std::int64_t epoch) {
  if (ahead_epoch_ != epoch) return plan_epoch(*dataset_, table_, options_, epoch);
  ahead_epoch_ = -1;
  return ahead_.get();
}

void BatchStream::plan_ahead() {
  if (ahead_epoch_ == cursor_.epoch + 1 || 2 * cursor_.row < plan_.num_rows()) return;
  ahead_epoch_ = cursor_.epoch + 1;
  ahead_ = std::async(std::launch::async,
                      [this, epoch = ahead_epoch_] { return plan_epoch(*dataset_, table_, options_, epoch); });
}

void BatchStream::next(std::int64_t num_rows, Batch& batch) {
  assert(num_rows >= 0);
  reset_batch(batch, num_rows, options_.seq_len);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const EpochPlan& epoch = plan();
    fill_row(*dataset_, epoch, options_.packing, cursor_.row, batch, row);
    plan_ahead();
    if (++cursor_.row == epoch.num_rows()) cursor_ = {cursor_.epoch + 1, 0};
  }
}

Batch BatchStream::next(std::int64_t num_rows) {
  Batch batch;
  next(num_rows, batch);
  return batch;
}

void BatchStream::restore(const BatchCursor& cursor) {
  if (cursor.epoch < 0 || cursor.row < 0 || cursor.epoch >= std::int64_t{1} << 40) {
    fail_corrupt("data cursor: epoch {}, row {} cannot be", cursor.epoch, cursor.row);
  }
  const BatchCursor before = cursor_;
  cursor_ = cursor;
  const std::int64_t num_rows = plan().num_rows();
  if (cursor.row >= num_rows && cursor.row > 0) {
    cursor_ = before;
    fail_corrupt("data cursor: row {} of epoch {}, which has {} rows; the data or its settings changed", cursor.row,
                 cursor.epoch, num_rows);
  }
}

std::string BatchStream::plan_hash() const {
  std::string text =
      fmt::format("rows 1 data {} seq_len {} packing {} long {} shuffle {} seed {} look_ahead {} weights",
                  dataset_->fingerprint(), options_.seq_len, static_cast<int>(options_.packing),
                  static_cast<int>(options_.long_documents), options_.shuffle, options_.seed, options_.look_ahead);
  for (const double weight : options_.weights) text += fmt::format(" {:a}", weight);
  return sha256_hex(text);
}

std::int64_t BatchStream::rows_per_epoch() { return plan().num_rows(); }

double BatchStream::fill_rate() { return plan().fill_rate(options_.seq_len); }

std::int64_t BatchStream::num_dropped_rows() { return plan().num_dropped_rows; }

}  // namespace ida::data
