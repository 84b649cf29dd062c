#include "data/packing.h"

#include "base/rng.h"
#include "data/batch.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

PackingOptions options_of(std::int64_t seq_len, Packing packing) {
  PackingOptions options;
  options.seq_len = seq_len;
  options.packing = packing;
  options.shuffle = false;
  return options;
}

Batch whole_epoch(const TokenDataset& dataset, const PackingOptions& options, std::int64_t epoch = 0) {
  const EpochPlan plan = plan_epoch(dataset, make_pieces(dataset, options), options, epoch);
  Batch batch;
  reset_batch(batch, plan.num_rows(), options.seq_len);
  for (std::int64_t row = 0; row < plan.num_rows(); ++row) fill_row(dataset, plan, options.packing, row, batch, row);
  return batch;
}

constexpr std::int32_t kNo = kIgnoreLabel;
using Ints = std::vector<std::int32_t>;

TEST(Packing, DocumentsByHand) {
  TempFolder folder;
  // Tokens 0 1 2 | 3 4 5 6 7 8 9 | 10 11
  std::vector<TestDocument> documents = counted_documents({3, 7, 2});
  documents[2].source = 1;
  const TokenDataset dataset = dataset_of(folder, documents, test_info(100, {"a", "b"}));
  const Batch batch = whole_epoch(dataset, options_of(5, Packing::kDocuments));
  // Row 0: document 0 and the longest that fits 2 places: of [7 8]... piece 8 9 and document 2, the earlier.
  EXPECT_EQ(batch.tokens, (Ints{0, 1, 2, 8, 9, 3, 4, 5, 6, 7, 10, 11, 0, 0, 0}));
  EXPECT_EQ(batch.labels, (Ints{1, 2, kNo, 9, kNo, 4, 5, 6, 7, 8, 11, kNo, kNo, kNo, kNo}));
  EXPECT_EQ(batch.positions, (Ints{0, 1, 2, 0, 1, 0, 1, 2, 3, 4, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.documents, (std::vector<DocumentSpan>{{0, 3}, {3, 2}, {5, 5}, {10, 2}}));
  EXPECT_EQ(batch.source_of_token,
            (std::vector<std::uint16_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, kNoSource, kNoSource, kNoSource}));
  EXPECT_EQ(batch.row_targets, (std::vector<std::int64_t>{3, 5, 1}));
  EXPECT_EQ(batch.num_targets, 9);
  // Three bytes a token; a document's first token is no target.
  EXPECT_EQ(batch.num_target_bytes, 9 * 3);
  EXPECT_EQ(batch.row_target_bytes, (std::vector<std::int64_t>{9, 15, 3}));
}

TEST(Packing, StreamByHand) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents({3, 0, 7, 2});
  const TokenDataset dataset = dataset_of(folder, documents, test_info(100));
  const Batch batch = whole_epoch(dataset, options_of(5, Packing::kStream));
  EXPECT_EQ(batch.tokens, (Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 0, 0}));
  EXPECT_EQ(batch.labels, (Ints{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, kNo, kNo, kNo, kNo}));
  EXPECT_EQ(batch.positions, (Ints{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.documents, (std::vector<DocumentSpan>{{0, 5}, {5, 5}, {10, 2}}));
  EXPECT_EQ(batch.num_targets, 11);
}

TEST(Packing, StreamDropsRowsWithoutATarget) {
  TempFolder folder;
  ShardInfo info = test_info(100);
  info.has_mask = true;
  std::vector<TestDocument> documents = counted_documents({9});
  documents[0].trained = {1, 1, 0, 0, 0, 0, 0, 0, 1};
  const TokenDataset dataset = dataset_of(folder, documents, info);
  const PackingOptions options = options_of(2, Packing::kStream);
  const EpochPlan plan = plan_epoch(dataset, make_pieces(dataset, options), options, 0);
  EXPECT_EQ(plan.num_rows(), 2);
  EXPECT_EQ(plan.num_dropped_rows, 3);  // [2 3], [4 5] and the lone last token
  EXPECT_EQ(plan.num_tokens, 4);
  const Batch batch = whole_epoch(dataset, options);
  EXPECT_EQ(batch.tokens, (Ints{0, 1, 6, 7}));
  EXPECT_EQ(batch.labels, (Ints{1, kNo, kNo, 8}));
}

TEST(Packing, MaskedTokensAreNoLabels) {
  TempFolder folder;
  ShardInfo info = test_info(100);
  info.has_mask = true;
  std::vector<TestDocument> documents = counted_documents({6});
  documents[0].trained = {1, 0, 0, 1, 1, 0};
  documents[0].text_bytes = 60;
  const TokenDataset dataset = dataset_of(folder, documents, info);
  const Batch batch = whole_epoch(dataset, options_of(4, Packing::kDocuments));
  EXPECT_EQ(batch.tokens, (Ints{0, 1, 2, 3}));  // [4 5] has no target
  EXPECT_EQ(batch.labels, (Ints{kNo, kNo, 3, 4}));
  EXPECT_EQ(batch.num_targets, 2);
  EXPECT_EQ(batch.num_target_bytes, 20);
}

TEST(Packing, LookAheadLimitsReordering) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents({6, 6, 6, 6, 2, 2}), test_info(100));
  PackingOptions options = options_of(8, Packing::kDocuments);
  const PieceTable table = make_pieces(dataset, options);
  EXPECT_EQ(plan_epoch(dataset, table, options, 0).num_rows(), 4);
  options.look_ahead = 1;
  const EpochPlan in_order = plan_epoch(dataset, table, options, 0);
  EXPECT_EQ(in_order.num_rows(), 5);
  for (std::size_t i = 0; i < in_order.slices.size(); ++i)
    EXPECT_EQ(in_order.slices[i].document, static_cast<std::int64_t>(i));
}

TEST(Packing, FillRateIsHighForMixedLengths) {
  TempFolder folder;
  std::vector<std::int64_t> lengths;
  for (std::uint64_t i = 0; i < 3000; ++i) lengths.push_back(2 + static_cast<std::int64_t>(bounded_at(3, 1, i, 300)));
  const TokenDataset dataset = dataset_of(folder, counted_documents(lengths), test_info(1000000));
  PackingOptions options = options_of(256, Packing::kDocuments);
  options.shuffle = true;
  const EpochPlan plan = plan_epoch(dataset, make_pieces(dataset, options), options, 0);
  EXPECT_GT(plan.fill_rate(256), 0.99);
  EXPECT_LE(plan.fill_rate(256), 1.0);
}

// ---- every property that any corpus must have, over random ones ----

struct Random {
  std::uint64_t seed;
  std::uint64_t at = 0;
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(bounded_at(seed, 99, at++, static_cast<std::uint64_t>(bound)));
  }
};

struct Corpus {
  std::vector<TestDocument> documents;  // token ids are unique
  std::vector<std::int32_t> document_of;
  std::vector<bool> trained;
};

Corpus random_corpus(Random& random) {
  Corpus corpus;
  std::vector<std::int64_t> lengths;
  const std::int64_t num_documents = 1 + random.below(30);
  const std::int64_t longest = 1 + random.below(40);
  for (std::int64_t d = 0; d < num_documents; ++d) lengths.push_back(random.below(longest + 1));
  corpus.documents = counted_documents(lengths);
  const std::int64_t masked_of_4 = random.below(5);
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    TestDocument& document = corpus.documents[d];
    document.source = static_cast<std::int32_t>(random.below(3));
    for (std::size_t i = 0; i < document.tokens.size(); ++i) {
      document.trained.push_back(random.below(4) >= masked_of_4 ? 1 : 0);
      corpus.trained.push_back(document.trained.back() != 0);
      corpus.document_of.push_back(static_cast<std::int32_t>(d));
    }
  }
  return corpus;
}

TokenDataset random_shards(const TempFolder& folder, const Corpus& corpus, Random& random) {
  std::vector<std::string> paths;
  const auto num_shards = static_cast<std::size_t>(1 + random.below(3));
  const std::int64_t vocab = random.below(2) == 0 ? 65536 : 70000;
  for (std::size_t s = 0; s < num_shards; ++s) {
    ShardInfo info = test_info(vocab, {"a", "b", "c"});
    info.has_mask = true;
    const std::size_t n = corpus.documents.size();
    const std::vector<TestDocument> part(corpus.documents.begin() + static_cast<std::ptrdiff_t>(n * s / num_shards),
                                         corpus.documents.begin() + static_cast<std::ptrdiff_t>(n * (s + 1) / num_shards));
    paths.push_back(folder / fmt::format("{}.shard", s));
    write_shard(paths.back(), part, info);
  }
  return TokenDataset::open(paths);
}

// Layout: segments in order and inside rows, tokens outside them are padding, positions from 0, sources right.
void check_layout(const Batch& batch, const Corpus& corpus) {
  std::vector<bool> inside(batch.tokens.size(), false);
  std::int64_t end = 0;
  for (const DocumentSpan& span : batch.documents) {
    ASSERT_GE(span.begin, end);
    ASSERT_GT(span.length, 0);
    end = span.begin + span.length;
    ASSERT_EQ(span.begin / batch.seq_len, (end - 1) / batch.seq_len);
    for (std::int64_t i = 0; i < span.length; ++i) {
      const auto at = static_cast<std::size_t>(span.begin + i);
      inside[at] = true;
      ASSERT_EQ(batch.positions[at], i);
      const auto document = static_cast<std::size_t>(corpus.document_of[static_cast<std::size_t>(batch.tokens[at])]);
      ASSERT_EQ(batch.source_of_token[at], corpus.documents[document].source);
    }
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i]) continue;
    ASSERT_EQ(batch.tokens[i], 0);
    ASSERT_EQ(batch.labels[i], kIgnoreLabel);
    ASSERT_EQ(batch.positions[i], 0);
    ASSERT_EQ(batch.source_of_token[i], kNoSource);
  }
}

// How often each token is a target; also that a label inside a segment is the token after it.
std::vector<int> target_counts(const Batch& batch, const Corpus& corpus) {
  std::vector<int> counts(corpus.trained.size(), 0);
  std::int64_t all = 0;
  for (const DocumentSpan& span : batch.documents) {
    for (std::int64_t i = 0; i < span.length; ++i) {
      const std::int32_t label = batch.labels[static_cast<std::size_t>(span.begin + i)];
      if (label == kIgnoreLabel) continue;
      ++counts[static_cast<std::size_t>(label)];
      ++all;
      EXPECT_TRUE(corpus.trained[static_cast<std::size_t>(label)]);
      if (i + 1 < span.length) {
        EXPECT_EQ(label, batch.tokens[static_cast<std::size_t>(span.begin + i + 1)]);
      }
    }
  }
  EXPECT_EQ(all, batch.num_targets);
  for (const std::int64_t targets : batch.row_targets) EXPECT_GT(targets, 0);
  return counts;
}

TEST(Packing, PropertiesOfRandomCorpora) {
  TempFolder folder;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(fmt::format("trial {}", trial));
    Random random{trial};
    const Corpus corpus = random_corpus(random);
    const TokenDataset dataset = random_shards(folder, corpus, random);
    PackingOptions options;
    options.seq_len = std::vector<std::int64_t>{1, 2, 3, 7, 16, 64}[static_cast<std::size_t>(random.below(6))];
    options.packing = random.below(2) == 0 ? Packing::kDocuments : Packing::kStream;
    options.shuffle = random.below(3) > 0;
    options.look_ahead = 1 + random.below(20);
    options.seed = trial;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      const Batch batch = whole_epoch(dataset, options, epoch);
      check_layout(batch, corpus);
      const std::vector<int> counts = target_counts(batch, corpus);
      std::int64_t missing = 0;
      for (std::size_t token = 0; token < counts.size(); ++token) {
        ASSERT_LE(counts[token], 1);
        const bool first = token == 0 || corpus.document_of[token] != corpus.document_of[token - 1];
        const bool expected = corpus.trained[token] && (options.packing == Packing::kStream || !first);
        if (expected && counts[token] == 0) ++missing;
        if (!expected) {
          ASSERT_EQ(counts[token], 0) << token;
        }
      }
      // Of a stream only the very first token cannot be predicted.
      ASSERT_LE(missing, options.packing == Packing::kStream ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace ida::data
