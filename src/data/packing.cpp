#include "data/packing.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace ida::data {
namespace {

// Pieces waiting to be packed, in order of arrival, with the longest that fits a space found in log time.
class PackingWindow {
 public:
  void add(std::int64_t arrival, std::int64_t length) {
    by_arrival_.push_back(arrival);
    by_length_.insert({length, -arrival});
  }
  std::int64_t size() const { return static_cast<std::int64_t>(by_length_.size()); }
  // The earliest piece: {length, -arrival}.
  std::int64_t take_oldest(const std::vector<std::int64_t>& lengths) {
    while (true) {
      const std::int64_t arrival = by_arrival_.front();
      by_arrival_.pop_front();
      if (by_length_.erase({lengths[static_cast<std::size_t>(arrival)], -arrival}) == 1) return arrival;
    }
  }
  // The longest piece of at most `space` tokens, the earliest among equals; -1: none.
  std::int64_t take_longest(std::int64_t space) {
    auto after = by_length_.upper_bound({space, std::numeric_limits<std::int64_t>::max()});
    if (after == by_length_.begin()) return -1;
    --after;
    const std::int64_t arrival = -after->second;
    by_length_.erase(after);
    return arrival;
  }

 private:
  std::deque<std::int64_t> by_arrival_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_length_;
};

EpochPlan pack_documents(const PieceTable& table, const std::vector<std::int64_t>& order, const PackingOptions& options) {
  EpochPlan plan;
  plan.row_begin.push_back(0);
  std::vector<std::int64_t> lengths;
  lengths.reserve(order.size());
  for (const std::int64_t piece : order) lengths.push_back(table.pieces[static_cast<std::size_t>(piece)].length);
  PackingWindow window;
  std::size_t next = 0;
  const auto refill = [&] {
    for (; next < order.size() && window.size() < options.look_ahead; ++next) {
      window.add(static_cast<std::int64_t>(next), lengths[next]);
    }
  };
  for (refill(); window.size() > 0; refill()) {
    std::int64_t space = options.seq_len;
    for (std::int64_t at = window.take_oldest(lengths); at >= 0; refill(), at = window.take_longest(space)) {
      const PieceTable::Piece& piece = table.pieces[static_cast<std::size_t>(order[static_cast<std::size_t>(at)])];
      plan.slices.push_back({piece.document, piece.begin, static_cast<std::int32_t>(piece.length),
                             piece.continues ? LastLabel::kSameDocument : LastLabel::kNone});
      space -= piece.length;
      plan.num_tokens += piece.length;
    }
    plan.row_order.push_back(static_cast<std::int64_t>(plan.row_begin.size()) - 1);
    plan.row_begin.push_back(static_cast<std::int64_t>(plan.slices.size()));
  }
  return plan;
}

// Whether a packed row of a stream has a target: any trained token after its first one, or the one that follows it.
bool stream_row_has_target(const TokenDataset& dataset, const EpochPlan& plan, std::int64_t row) {
  const auto begin = static_cast<std::size_t>(plan.row_begin[row]);
  const auto end = static_cast<std::size_t>(plan.row_begin[row + 1]);
  for (std::size_t i = begin; i < end; ++i) {
    const Slice& slice = plan.slices[i];
    const DocumentView document = dataset.document(slice.document);
    for (std::int64_t at = i == begin ? 1 : 0; at < slice.length; ++at) {
      if (document.trained(slice.begin + at)) return true;
    }
  }
  if (plan.slices[end - 1].last_label == LastLabel::kNone) return false;
  return dataset.document(plan.slices[end].document).trained(plan.slices[end].begin);
}

EpochPlan cut_stream(const TokenDataset& dataset, const PieceTable& table, const std::vector<std::int64_t>& order,
                     const PackingOptions& options) {
  EpochPlan plan;
  plan.row_begin.push_back(0);
  std::int64_t space = options.seq_len;
  for (const std::int64_t piece_idx : order) {
    const PieceTable::Piece& piece = table.pieces[static_cast<std::size_t>(piece_idx)];
    for (std::int64_t at = 0; at < piece.length;) {
      const std::int64_t size = std::min(space, piece.length - at);
      plan.slices.push_back({piece.document, at, static_cast<std::int32_t>(size), LastLabel::kNextSlice});
      at += size;
      space -= size;
      if (space == 0) {
        plan.row_begin.push_back(static_cast<std::int64_t>(plan.slices.size()));
        space = options.seq_len;
      }
    }
  }
  if (plan.slices.empty()) return plan;
  plan.slices.back().last_label = LastLabel::kNone;
  const auto num_slices = static_cast<std::int64_t>(plan.slices.size());
  if (plan.row_begin.back() != num_slices) plan.row_begin.push_back(num_slices);
  const std::int64_t num_packed = static_cast<std::int64_t>(plan.row_begin.size()) - 1;
  for (std::int64_t row = 0; row < num_packed; ++row) {
    if (!stream_row_has_target(dataset, plan, row)) {
      ++plan.num_dropped_rows;
      continue;
    }
    plan.row_order.push_back(row);
    for (std::int64_t i = plan.row_begin[row]; i < plan.row_begin[row + 1]; ++i) plan.num_tokens += plan.slices[i].length;
  }
  return plan;
}

EpochPlan plan_pieces(const TokenDataset& dataset, const PieceTable& table, const PackingOptions& options,
                      const std::vector<std::int64_t>& order) {
  return options.packing == Packing::kDocuments ? pack_documents(table, order, options)
                                                : cut_stream(dataset, table, order, options);
}

}  // namespace

double EpochPlan::fill_rate(std::int64_t seq_len) const {
  return num_rows() == 0
             ? 0.0
             : static_cast<double>(num_tokens) / (static_cast<double>(num_rows()) * static_cast<double>(seq_len));
}

EpochPlan plan_epoch(const TokenDataset& dataset, const PieceTable& table, const PackingOptions& options,
                     std::int64_t epoch) {
  EpochPlan plan = plan_pieces(dataset, table, options, pieces_of_epoch(table, options, epoch));
  if (options.packing == Packing::kStream && options.shuffle) {
    const std::vector<std::int64_t> kept = plan.row_order;
    const auto order = row_order_of_epoch(plan.num_rows(), options, epoch);
    for (std::size_t i = 0; i < order.size(); ++i) plan.row_order[i] = kept[static_cast<std::size_t>(order[i])];
  }
  return plan;
}

EpochPlan plan_source(const TokenDataset& dataset, const PieceTable& table, const PackingOptions& options,
                      std::int32_t source) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(table.source_begin[source + 1] - table.source_begin[source]));
  std::iota(order.begin(), order.end(), table.source_begin[source]);
  return plan_pieces(dataset, table, options, order);
}

}  // namespace ida::data
