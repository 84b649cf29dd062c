#include "data/batch.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace ida::data {
namespace {

// Makes tokens [at, at + count) of a document the labels from flat index `flat` on.
void add_targets(const DocumentView& document, std::int64_t at, std::int64_t count, std::int64_t flat, Batch& batch) {
  std::int32_t* labels = batch.labels.data() + flat;
  std::int64_t num_targets = count;
  std::int64_t num_bytes = 0;
  if (!document.has_mask()) {
    document.copy_tokens(at, count, labels);
    num_bytes = document.text_bytes_before(at + count) - document.text_bytes_before(at);
  } else {
    num_targets = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!document.trained(at + i)) continue;
      labels[i] = document.token(at + i);
      num_bytes += document.text_bytes_before(at + i + 1) - document.text_bytes_before(at + i);
      ++num_targets;
    }
  }
  const auto row = static_cast<std::size_t>(flat / batch.seq_len);
  batch.row_targets[row] += num_targets;
  batch.row_target_bytes[row] += num_bytes;
  batch.num_targets += num_targets;
  batch.num_target_bytes += num_bytes;
}

}  // namespace

void reset_batch(Batch& batch, std::int64_t rows, std::int64_t seq_len) {
  const auto size = static_cast<std::size_t>(rows * seq_len);
  batch.rows = rows;
  batch.seq_len = seq_len;
  batch.tokens.assign(size, 0);
  batch.labels.assign(size, kIgnoreLabel);
  batch.positions.assign(size, 0);
  batch.source_of_token.assign(size, kNoSource);
  batch.documents.clear();
  batch.row_targets.assign(static_cast<std::size_t>(rows), 0);
  batch.row_target_bytes.assign(static_cast<std::size_t>(rows), 0);
  batch.num_targets = 0;
  batch.num_target_bytes = 0;
}

void fill_row(const TokenDataset& dataset, const EpochPlan& plan, Packing packing, std::int64_t row, Batch& batch,
              std::int64_t batch_row) {
  assert(row >= 0 && row < plan.num_rows() && batch_row >= 0 && batch_row < batch.rows);
  const std::int64_t packed = plan.row_order[static_cast<std::size_t>(row)];
  const auto first = static_cast<std::size_t>(plan.row_begin[static_cast<std::size_t>(packed)]);
  const auto last = static_cast<std::size_t>(plan.row_begin[static_cast<std::size_t>(packed) + 1]);
  const std::int64_t row_flat = batch_row * batch.seq_len;
  std::int64_t used = 0;
  for (std::size_t i = first; i < last; ++i) {
    const Slice& slice = plan.slices[i];
    const std::int64_t flat = row_flat + used;
    const DocumentView document = dataset.document(slice.document);
    document.copy_tokens(slice.begin, slice.length, batch.tokens.data() + flat);
    const std::int64_t position = packing == Packing::kStream ? used : 0;
    std::iota(batch.positions.begin() + flat, batch.positions.begin() + flat + slice.length,
              static_cast<std::int32_t>(position));
    std::fill_n(batch.source_of_token.begin() + flat, slice.length, static_cast<std::uint16_t>(document.source()));
    const bool own_next = slice.last_label == LastLabel::kSameDocument;
    add_targets(document, slice.begin + 1, own_next ? slice.length : slice.length - 1, flat, batch);
    if (slice.last_label == LastLabel::kNextSlice) {
      const Slice& next = plan.slices[i + 1];
      add_targets(dataset.document(next.document), next.begin, 1, flat + slice.length - 1, batch);
    }
    if (packing == Packing::kDocuments) batch.documents.push_back({flat, slice.length});
    used += slice.length;
  }
  if (packing == Packing::kStream) batch.documents.push_back({row_flat, used});
}

void split_batch(const Batch& batch, std::int64_t begin_row, std::int64_t num_rows, Batch& out) {
  assert(&batch != &out && begin_row >= 0 && num_rows >= 0 && begin_row + num_rows <= batch.rows);
  const std::int64_t begin = begin_row * batch.seq_len;
  const std::int64_t end = begin + num_rows * batch.seq_len;
  const auto cut = [](const auto& from, std::int64_t first, std::int64_t last, auto& to) {
    to.assign(from.begin() + first, from.begin() + last);
  };
  out.rows = num_rows;
  out.seq_len = batch.seq_len;
  cut(batch.tokens, begin, end, out.tokens);
  cut(batch.labels, begin, end, out.labels);
  cut(batch.positions, begin, end, out.positions);
  cut(batch.source_of_token, begin, end, out.source_of_token);
  cut(batch.row_targets, begin_row, begin_row + num_rows, out.row_targets);
  cut(batch.row_target_bytes, begin_row, begin_row + num_rows, out.row_target_bytes);
  out.documents.clear();
  for (const DocumentSpan& span : batch.documents) {
    if (span.begin >= begin && span.begin < end) out.documents.push_back({span.begin - begin, span.length});
  }
  out.num_targets = std::accumulate(out.row_targets.begin(), out.row_targets.end(), std::int64_t{0});
  out.num_target_bytes = std::accumulate(out.row_target_bytes.begin(), out.row_target_bytes.end(), std::int64_t{0});
}

void pad_batch(Batch& batch, std::int64_t rows) {
  assert(rows >= batch.rows);
  const auto size = static_cast<std::size_t>(rows * batch.seq_len);
  batch.rows = rows;
  batch.tokens.resize(size, 0);
  batch.labels.resize(size, kIgnoreLabel);
  batch.positions.resize(size, 0);
  batch.source_of_token.resize(size, kNoSource);
  batch.row_targets.resize(static_cast<std::size_t>(rows), 0);
  batch.row_target_bytes.resize(static_cast<std::size_t>(rows), 0);
}

}  // namespace ida::data
