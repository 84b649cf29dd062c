// What an epoch of training is made of: pieces of documents, and the order in which an epoch takes them.
//
// documents packing: a document longer than a row is cut into pieces of seq_len tokens (LongDocuments). A piece that
//   does not end its document has the document's next token as its last label, so every token but the first of a
//   document is a target exactly once.
// stream packing: a piece is a whole document.
//
// An epoch takes every piece once. With weights it takes about as many tokens, shared between the sources in proportion
// to the weights: each source is read in passes of its own, in a new order each pass, and continues where the former
// epoch stopped. All of it is a pure function of (dataset, options, epoch).
#pragma once
#include <cstdint>
#include <vector>

#include "data/token_dataset.h"

namespace ida::data {

enum class Packing { kDocuments, kStream };
enum class LongDocuments { kSplit, kTruncate, kDrop };

struct PackingOptions {
  std::int64_t seq_len = 1024;
  Packing packing = Packing::kDocuments;
  LongDocuments long_documents = LongDocuments::kSplit;  // stream packing has no long documents
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::vector<double> weights;    // one per source of the dataset, any scale; empty: every piece once an epoch
  std::int64_t look_ahead = 512;  // pieces
};

// Throws kUsage for values that cannot work, naming the key.
void check_packing_options(const PackingOptions& options, const TokenDataset& dataset);

// What an epoch is made of: pieces (documents packing) or whole documents (stream packing), grouped by source.
struct PieceTable {
  struct Piece {
    std::int64_t document = 0;
    std::int64_t begin = 0;
    std::int64_t length = 0;
    bool continues = false;  // the document's next token is the label of the last one
  };
  std::vector<Piece> pieces;
  std::vector<std::int64_t> source_begin;   // [sources + 1], into pieces
  std::vector<std::int64_t> source_tokens;  // [sources]
  std::int64_t num_empty = 0;               // zero-length documents, skipped
  std::int64_t num_untrained = 0;           // pieces without any target, skipped (documents packing)
  std::int64_t num_long = 0;                // documents longer than a row
};
PieceTable make_pieces(const TokenDataset& dataset, const PackingOptions& options);

// Indices into `table.pieces`, in the order in which epoch `epoch` takes them.
std::vector<std::int64_t> pieces_of_epoch(const PieceTable& table, const PackingOptions& options, std::int64_t epoch);

// The order of a stream's rows in an epoch (see packing.h).
std::vector<std::int64_t> row_order_of_epoch(std::int64_t num_rows, const PackingOptions& options, std::int64_t epoch);

// A permutation of 0 .. n-1, a pure function of its arguments (Fisher-Yates over counter-based bits).
std::vector<std::int64_t> seeded_permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream);

}  // namespace ida::data
