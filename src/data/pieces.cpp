#include "data/pieces.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace ida::data {
namespace {

// Uses of random bits; each has its own streams, so no two permutations share bits.
enum class Purpose : std::uint64_t { kEpochOrder = 1, kSourceOrder = 2, kRowOrder = 3 };

std::uint64_t stream_of(Purpose purpose, std::uint64_t source, std::int64_t epoch) {
  return (static_cast<std::uint64_t>(purpose) << 56) | (source << 40) | static_cast<std::uint64_t>(epoch);
}

std::int64_t num_sources(const PieceTable& table) { return static_cast<std::int64_t>(table.source_tokens.size()); }

std::int64_t pieces_of(const PieceTable& table, std::int64_t source) {
  return table.source_begin[source + 1] - table.source_begin[source];
}

bool has_target(const DocumentView& document, const PieceTable::Piece& piece) {
  const std::int64_t end = piece.begin + piece.length + (piece.continues ? 1 : 0);
  for (std::int64_t at = piece.begin + 1; at < end; ++at) {
    if (document.trained(at)) return true;
  }
  return false;
}

// Adds the pieces of one document, which is not empty.
void cut_document(const DocumentView& document, std::int64_t document_idx, const PackingOptions& options, PieceTable& table,
                  std::vector<PieceTable::Piece>& out) {
  const std::int64_t length = document.length();
  const std::int64_t row = options.packing == Packing::kStream ? length : options.seq_len;
  if (length > row) ++table.num_long;
  if (length > row && options.long_documents == LongDocuments::kDrop) return;
  const std::int64_t end = options.long_documents == LongDocuments::kTruncate ? std::min(length, row) : length;
  for (std::int64_t begin = 0; begin < end; begin += row) {
    // A lone last token is the last label of the piece before it and has no target of its own.
    if (begin > 0 && end - begin == 1) break;
    const std::int64_t size = std::min(row, end - begin);
    const PieceTable::Piece piece{document_idx, begin, size, begin + size < end};
    if (options.packing == Packing::kDocuments && !has_target(document, piece)) {
      ++table.num_untrained;
    } else {
      out.push_back(piece);
    }
  }
}

// The pieces that epoch `epoch` takes from one source, in the source's own order: positions [begin, end) of an endless
// sequence of passes.
void take_from_source(const PieceTable& table, const PackingOptions& options, std::int64_t source, std::int64_t begin,
                      std::int64_t end, std::vector<std::int64_t>& out) {
  const std::int64_t n = pieces_of(table, source);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::int64_t pass = -1;
  for (std::int64_t at = begin; at < end; ++at) {
    if (at / n != pass) {
      pass = at / n;
      if (options.shuffle) {
        order =
            seeded_permutation(n, options.seed, stream_of(Purpose::kSourceOrder, static_cast<std::uint64_t>(source), pass));
      } else {
        std::iota(order.begin(), order.end(), std::int64_t{0});
      }
    }
    out.push_back(table.source_begin[source] + order[static_cast<std::size_t>(at % n)]);
  }
}

// Pieces of a weighted epoch, the sources interleaved evenly.
std::vector<std::int64_t> weighted_pieces(const PieceTable& table, const PackingOptions& options, std::int64_t epoch) {
  const double all_tokens =
      static_cast<double>(std::accumulate(table.source_tokens.begin(), table.source_tokens.end(), std::int64_t{0}));
  double all_weights = 0.0;
  for (std::int64_t s = 0; s < num_sources(table); ++s) {
    if (pieces_of(table, s) > 0) all_weights += options.weights[s];
  }
  struct Taken {
    double when;
    std::int64_t piece;
  };
  std::vector<Taken> taken;
  for (std::int64_t s = 0; s < num_sources(table); ++s) {
    if (pieces_of(table, s) == 0 || options.weights[s] == 0.0) continue;
    const double mean_tokens = static_cast<double>(table.source_tokens[s]) / static_cast<double>(pieces_of(table, s));
    const double per_epoch = options.weights[s] / all_weights * all_tokens / mean_tokens;
    const auto begin = static_cast<std::int64_t>(std::floor(static_cast<double>(epoch) * per_epoch));
    const auto end = static_cast<std::int64_t>(std::floor(static_cast<double>(epoch + 1) * per_epoch));
    std::vector<std::int64_t> mine;
    take_from_source(table, options, s, begin, end, mine);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      taken.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(mine.size()), mine[i]});
    }
  }
  std::stable_sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.when < b.when; });
  std::vector<std::int64_t> pieces;
  for (const Taken& one : taken) pieces.push_back(one.piece);
  return pieces;
}

}  // namespace

void check_packing_options(const PackingOptions& options, const TokenDataset& dataset) {
  if (options.seq_len < 1 || options.seq_len > std::numeric_limits<std::int32_t>::max()) {
    fail_usage("[data] seq_len = {}: expected 1 to {}", options.seq_len, std::numeric_limits<std::int32_t>::max());
  }
  if (options.look_ahead < 1) fail_usage("[data] look_ahead = {}: expected at least 1 piece", options.look_ahead);
  if (options.weights.empty()) return;
  const std::vector<std::string>& names = dataset.source_names();
  if (options.weights.size() != names.size()) {
    fail_usage("[data] weights: {} values for {} sources; expected one for each entry", options.weights.size(),
               names.size());
  }
  double sum = 0.0;
  for (std::size_t s = 0; s < names.size(); ++s) {
    if (!std::isfinite(options.weights[s]) || options.weights[s] < 0.0) {
      fail_usage("[data] weights: {} for source \"{}\"; expected a finite number of at least 0", options.weights[s],
                 names[s]);
    }
    sum += options.weights[s];
  }
  if (!(sum > 0.0) || !std::isfinite(sum)) fail_usage("[data] weights: their sum is {}; expected more than 0", sum);
}

PieceTable make_pieces(const TokenDataset& dataset, const PackingOptions& options) {
  PieceTable table;
  std::vector<std::vector<PieceTable::Piece>> by_source(dataset.source_names().size());
  for (std::int64_t i = 0; i < dataset.num_documents(); ++i) {
    const DocumentView document = dataset.document(i);
    if (document.length() == 0) {
      ++table.num_empty;
      continue;
    }
    cut_document(document, i, options, table, by_source[static_cast<std::size_t>(document.source())]);
  }
  table.source_begin.push_back(0);
  for (const std::vector<PieceTable::Piece>& pieces : by_source) {
    std::int64_t tokens = 0;
    for (const PieceTable::Piece& piece : pieces) tokens += piece.length;
    table.pieces.insert(table.pieces.end(), pieces.begin(), pieces.end());
    table.source_begin.push_back(static_cast<std::int64_t>(table.pieces.size()));
    table.source_tokens.push_back(tokens);
  }
  return table;
}

std::vector<std::int64_t> pieces_of_epoch(const PieceTable& table, const PackingOptions& options, std::int64_t epoch) {
  std::vector<std::int64_t> pieces;
  if (options.weights.empty()) {
    pieces.resize(table.pieces.size());
    std::iota(pieces.begin(), pieces.end(), std::int64_t{0});
  } else {
    pieces = weighted_pieces(table, options, epoch);
  }
  if (!options.shuffle) return pieces;
  const auto order =
      seeded_permutation(static_cast<std::int64_t>(pieces.size()), options.seed, stream_of(Purpose::kEpochOrder, 0, epoch));
  std::vector<std::int64_t> shuffled(pieces.size());
  for (std::size_t i = 0; i < order.size(); ++i) shuffled[i] = pieces[static_cast<std::size_t>(order[i])];
  return shuffled;
}

std::vector<std::int64_t> row_order_of_epoch(std::int64_t num_rows, const PackingOptions& options, std::int64_t epoch) {
  return seeded_permutation(num_rows, options.seed, stream_of(Purpose::kRowOrder, 0, epoch));
}

std::vector<std::int64_t> seeded_permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = n - 1; i > 0; --i) {
    const std::uint64_t j = bounded_at(seed, stream, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(i) + 1);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

}  // namespace ida::data
