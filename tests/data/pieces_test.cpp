#include "data/pieces.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data_test_util.h"

namespace ida::data {
namespace {

// Pieces as "document:begin+length", with '>' where the document goes on.
std::string text_of(const PieceTable& table) {
  std::string text;
  for (const PieceTable::Piece& piece : table.pieces) {
    text += fmt::format("{}:{}+{}{} ", piece.document, piece.begin, piece.length, piece.continues ? ">" : "");
  }
  return text;
}

PackingOptions options_of(std::int64_t seq_len, LongDocuments long_documents = LongDocuments::kSplit) {
  PackingOptions options;
  options.seq_len = seq_len;
  options.long_documents = long_documents;
  return options;
}

TEST(Pieces, LongDocumentsBySplitTruncateDrop) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents({4, 5, 9, 10, 0, 1}), test_info(100));
  const PieceTable split = make_pieces(dataset, options_of(4));
  EXPECT_EQ(text_of(split), "0:0+4 1:0+4> 2:0+4> 2:4+4> 3:0+4> 3:4+4> 3:8+2 ");
  EXPECT_EQ(split.num_empty, 1);
  EXPECT_EQ(split.num_long, 3);
  EXPECT_EQ(split.num_untrained, 1);  // the document of one token
  EXPECT_EQ(text_of(make_pieces(dataset, options_of(4, LongDocuments::kTruncate))), "0:0+4 1:0+4 2:0+4 3:0+4 ");
  EXPECT_EQ(text_of(make_pieces(dataset, options_of(4, LongDocuments::kDrop))), "0:0+4 ");
  PackingOptions stream = options_of(4, LongDocuments::kDrop);
  stream.packing = Packing::kStream;
  EXPECT_EQ(text_of(make_pieces(dataset, stream)), "0:0+4 1:0+5 2:0+9 3:0+10 5:0+1 ");
}

TEST(Pieces, RowsOfOneAndTwoTokens) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents({1, 2, 3}), test_info(100));
  EXPECT_EQ(text_of(make_pieces(dataset, options_of(1))), "1:0+1> 2:0+1> 2:1+1> ");
  EXPECT_EQ(text_of(make_pieces(dataset, options_of(2))), "1:0+2 2:0+2> ");
}

TEST(Pieces, WithoutATargetAreLeftOut) {
  TempFolder folder;
  ShardInfo info = test_info(100);
  info.has_mask = true;
  std::vector<TestDocument> documents = counted_documents({6, 3});
  documents[0].trained = {1, 0, 0, 1, 0, 0};  // the only reachable target is token 3
  documents[1].trained = {1, 0, 0};
  const TokenDataset dataset = dataset_of(folder, documents, info);
  const PieceTable table = make_pieces(dataset, options_of(3));
  EXPECT_EQ(text_of(table), "0:0+3> ");
  EXPECT_EQ(table.num_untrained, 2);
}

TEST(Pieces, PermutationIsOneAndDependsOnAllArguments) {
  for (const std::int64_t n : {0, 1, 2, 3, 100}) {
    std::vector<std::int64_t> order = seeded_permutation(n, 7, 3);
    EXPECT_EQ(order, seeded_permutation(n, 7, 3));
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    EXPECT_EQ(order, all);
  }
  EXPECT_NE(seeded_permutation(100, 7, 3), seeded_permutation(100, 8, 3));
  EXPECT_NE(seeded_permutation(100, 7, 3), seeded_permutation(100, 7, 4));
}

// Every order of 4 elements is equally likely: chi-square over 24 cells with 23 degrees of freedom is below 49.7 with
// probability 0.999, and the seeds are fixed.
TEST(Pieces, PermutationIsUniform) {
  std::map<std::vector<std::int64_t>, int> counts;
  for (std::uint64_t stream = 0; stream < 24000; ++stream) ++counts[seeded_permutation(4, 1, stream)];
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0.0;
  for (const auto& [order, count] : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 49.7);
}

TEST(Pieces, EpochTakesEachOnceInAnOrderOfItsOwn) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents(std::vector<std::int64_t>(50, 3)), test_info(200));
  PackingOptions options = options_of(8);
  const PieceTable table = make_pieces(dataset, options);
  const auto first = pieces_of_epoch(table, options, 0);
  const auto second = pieces_of_epoch(table, options, 1);
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
  options.shuffle = false;
  const auto plain = pieces_of_epoch(table, options, 1);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
  EXPECT_EQ(plain.size(), 50U);
}

TEST(Pieces, WeightsShareTokensAndCoverEachSourceInPasses) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents(std::vector<std::int64_t>(30, 10));
  for (TestDocument& document : counted_documents(std::vector<std::int64_t>(40, 5), 300)) {
    document.source = 1;
    documents.push_back(document);
  }
  const TokenDataset dataset = dataset_of(folder, documents, test_info(1000, {"a", "b"}));
  for (const bool shuffle : {false, true}) {
    PackingOptions options = options_of(16);
    options.shuffle = shuffle;
    options.weights = {3.0, 1.0};
    const PieceTable table = make_pieces(dataset, options);
    std::vector<std::int64_t> uses(70, 0);
    std::int64_t tokens[2] = {0, 0};
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      for (const std::int64_t piece : pieces_of_epoch(table, options, epoch)) {
        ++uses[static_cast<std::size_t>(piece)];
        tokens[piece < 30 ? 0 : 1] += piece < 30 ? 10 : 5;
      }
    }
    // 8 epochs of 500 tokens at 3 : 1 are 300 pieces of a (10 passes) and 200 of b (5 passes).
    EXPECT_EQ(tokens[0], 3000);
    EXPECT_EQ(tokens[1], 1000);
    EXPECT_EQ(std::count(uses.begin(), uses.begin() + 30, 10), 30);
    EXPECT_EQ(std::count(uses.begin() + 30, uses.end(), 5), 40);
  }
}

TEST(Pieces, WeightedOrderInterleavesTheSources) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents(std::vector<std::int64_t>(20, 4));
  for (std::size_t i = 10; i < 20; ++i) documents[i].source = 1;
  const TokenDataset dataset = dataset_of(folder, documents, test_info(1000, {"a", "b"}));
  PackingOptions options = options_of(16);
  options.shuffle = false;
  options.weights = {1.0, 1.0};
  const auto order = pieces_of_epoch(make_pieces(dataset, options), options, 0);
  ASSERT_EQ(order.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(order[i] >= 10, i % 2 == 1) << i;
}

TEST(Pieces, ZeroWeightLeavesASourceOut) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents({4, 4, 4});
  documents[2].source = 1;
  const TokenDataset dataset = dataset_of(folder, documents, test_info(100, {"a", "b"}));
  PackingOptions options = options_of(4);
  options.weights = {0.0, 2.0};
  const auto order = pieces_of_epoch(make_pieces(dataset, options), options, 0);
  EXPECT_EQ(order, (std::vector<std::int64_t>{2, 2, 2}));
}

TEST(Pieces, ImpossibleOptionsAreNamed) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents({4}), test_info(100));
  const auto refused = [&](const char* part, const PackingOptions& options) {
    expect_error(ExitCode::kUsage, {part}, [&] { check_packing_options(options, dataset); });
  };
  refused("seq_len = 0", options_of(0));
  refused("seq_len = -3", options_of(-3));
  PackingOptions options = options_of(4);
  options.look_ahead = 0;
  refused("look_ahead", options);
  options = options_of(4);
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{{1, 1}, {-1}, {0}, {NAN}, {INFINITY}}) {
    options.weights = weights;
    refused("weights", options);
  }
}

}  // namespace
}  // namespace ida::data
