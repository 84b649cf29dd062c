#include "data/batch_stream.h"

#include <algorithm>
#include <numeric>

#include "data_test_util.h"

namespace ida::data {
namespace {

PackingOptions options_of(std::int64_t seq_len, Packing packing = Packing::kDocuments) {
  PackingOptions options;
  options.seq_len = seq_len;
  options.packing = packing;
  options.seed = 5;
  return options;
}

// Rows of several batches as one.
Batch joined(const std::vector<Batch>& batches) {
  Batch all;
  all.seq_len = batches.front().seq_len;
  for (const Batch& batch : batches) {
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (const DocumentSpan& span : batch.documents)
      all.documents.push_back({span.begin + all.rows * all.seq_len, span.length});
    append(all.tokens, batch.tokens);
    append(all.labels, batch.labels);
    append(all.positions, batch.positions);
    append(all.source_of_token, batch.source_of_token);
    append(all.row_targets, batch.row_targets);
    append(all.row_target_bytes, batch.row_target_bytes);
    all.rows += batch.rows;
    all.num_targets += batch.num_targets;
    all.num_target_bytes += batch.num_target_bytes;
  }
  return all;
}

class BatchStreams : public testing::TestWithParam<Packing> {
 protected:
  BatchStreams() {
    write_shard(folder_ / "1.shard", counted_documents({5, 9, 1, 14, 3, 0, 7}), test_info(1000, {"a"}));
    write_shard(folder_ / "2.shard", counted_documents({6, 2, 11, 4}, 500), test_info(1000, {"b"}));
  }
  TokenDataset dataset() const { return TokenDataset::open({folder_ / "1.shard", folder_ / "2.shard"}); }
  TempFolder folder_;
};

TEST_P(BatchStreams, RowsDoNotDependOnTheBatchSize) {
  const TokenDataset data = dataset();
  BatchStream whole(data, options_of(8, GetParam()));
  const Batch expected = whole.next(60);
  for (const std::int64_t size : {1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30}) {
    BatchStream stream(data, options_of(8, GetParam()));
    std::vector<Batch> batches;
    for (std::int64_t rows = 0; rows < 60; rows += size) batches.push_back(stream.next(size));
    EXPECT_EQ(joined(batches), expected) << size;
    EXPECT_EQ(stream.cursor(), whole.cursor());
  }
}

TEST_P(BatchStreams, RestoredEqualsUninterruptedAtEveryRow) {
  const TokenDataset data = dataset();
  BatchStream whole(data, options_of(8, GetParam()));
  ASSERT_LT(whole.rows_per_epoch(), 15);
  const Batch expected = whole.next(60);
  BatchStream first(data, options_of(8, GetParam()));
  for (std::int64_t k = 0; k <= 40; ++k) {
    const TokenDataset fresh = dataset();
    BatchStream second(fresh, options_of(8, GetParam()));
    second.restore(first.cursor());
    EXPECT_EQ(second.cursor(), first.cursor());
    Batch rest;
    split_batch(expected, k, 20, rest);
    EXPECT_EQ(second.next(20), rest) << "restored at row " << k;
    first.next(1);
  }
}

TEST_P(BatchStreams, WrapsAndCountsEpochs) {
  const TokenDataset data = dataset();
  BatchStream stream(data, options_of(8, GetParam()));
  std::vector<std::vector<std::int32_t>> order;
  std::vector<std::int32_t> first_targets;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(stream.cursor(), (BatchCursor{epoch, 0}));
    const Batch batch = stream.next(stream.rows_per_epoch());
    order.push_back(batch.tokens);
    std::vector<std::int32_t> targets;
    std::copy_if(batch.labels.begin(), batch.labels.end(), std::back_inserter(targets),
                 [](std::int32_t l) { return l >= 0; });
    std::sort(targets.begin(), targets.end());
    EXPECT_TRUE(std::adjacent_find(targets.begin(), targets.end()) == targets.end());
    if (epoch == 0) first_targets = targets;
    if (GetParam() == Packing::kDocuments) {
      EXPECT_EQ(targets, first_targets);
    }
  }
  EXPECT_EQ(stream.cursor(), (BatchCursor{3, 0}));
  EXPECT_NE(order[0], order[1]);
  EXPECT_NE(order[1], order[2]);
}

TEST_P(BatchStreams, CorpusShorterThanABatch) {
  TempFolder folder;
  const TokenDataset data = dataset_of(folder, counted_documents({3}), test_info(10));
  BatchStream stream(data, options_of(4, GetParam()));
  const Batch batch = stream.next(5);
  EXPECT_EQ(batch.num_targets, 10);
  EXPECT_EQ(stream.cursor(), (BatchCursor{5, 0}));
}

TEST_P(BatchStreams, SeedChangesTheOrder) {
  const TokenDataset data = dataset();
  PackingOptions options = options_of(8, GetParam());
  BatchStream a(data, options);
  options.seed = 6;
  BatchStream b(data, options);
  EXPECT_NE(a.next(10).tokens, b.next(10).tokens);
}

TEST_P(BatchStreams, ReusesMemory) {
  const TokenDataset data = dataset();
  BatchStream stream(data, options_of(8, GetParam()));
  Batch batch;
  stream.next(4, batch);
  const std::int32_t* tokens = batch.tokens.data();
  const std::int32_t* labels = batch.labels.data();
  for (int i = 0; i < 20; ++i) {
    stream.next(i % 5, batch);
    EXPECT_EQ(batch.tokens.data(), tokens);
    EXPECT_EQ(batch.labels.data(), labels);
  }
}

TEST_P(BatchStreams, SplitCutsMicroBatches) {
  const TokenDataset data = dataset();
  BatchStream stream(data, options_of(8, GetParam()));
  const Batch whole = stream.next(12);
  for (const std::int64_t size : {1, 2, 3, 4, 6, 12}) {
    std::vector<Batch> parts(static_cast<std::size_t>(12 / size));
    for (std::size_t i = 0; i < parts.size(); ++i) split_batch(whole, static_cast<std::int64_t>(i) * size, size, parts[i]);
    EXPECT_EQ(joined(parts), whole);
    EXPECT_EQ(parts[0].documents.front().begin, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Packings, BatchStreams, testing::Values(Packing::kDocuments, Packing::kStream),
                         [](const auto& packing) { return packing.param == Packing::kDocuments ? "documents" : "stream"; });

TEST(BatchStream, WeightedRowsRestoreToo) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents({5, 9, 4, 14, 3, 7, 6, 2, 11, 4});
  for (std::size_t i = 5; i < 10; ++i) documents[i].source = 1;
  const TokenDataset data = dataset_of(folder, documents, test_info(100, {"a", "b"}));
  PackingOptions options = options_of(8);
  options.weights = {1.0, 0.3};
  BatchStream whole(data, options);
  const Batch expected = whole.next(60);
  BatchStream first(data, options);
  for (std::int64_t k = 0; k < 40; ++k) {
    BatchStream second(data, options);
    second.restore(first.cursor());
    Batch rest;
    split_batch(expected, k, 20, rest);
    EXPECT_EQ(second.next(20), rest) << k;
    first.next(1);
  }
}

TEST(BatchStream, NothingToTrainOn) {
  TempFolder folder;
  ShardInfo masked = test_info(100);
  masked.has_mask = true;
  for (const Packing packing : {Packing::kDocuments, Packing::kStream}) {
    const TokenDataset none = dataset_of(folder, {}, test_info(100));
    expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(none, options_of(4, packing)); });
    const TokenDataset empty = dataset_of(folder, counted_documents({0, 0}), test_info(100));
    expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(empty, options_of(4, packing)); });
    const TokenDataset one = dataset_of(folder, counted_documents({1}), test_info(100));
    expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(one, options_of(4, packing)); });
    const TokenDataset all_masked = dataset_of(folder, {{{1, 2, 3}, 0, {0, 0, 0}, 0}}, masked);
    expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(all_masked, options_of(4, packing)); });
    // The only trained token is the first of the corpus, which nothing predicts.
    const TokenDataset first = dataset_of(folder, {{{1, 2, 3}, 0, {1, 0, 0}, 0}}, masked);
    expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(first, options_of(4, packing)); });
  }
  std::vector<TestDocument> documents = counted_documents({4, 1});
  documents[1].source = 1;
  const TokenDataset data = dataset_of(folder, documents, test_info(100, {"a", "b"}));
  PackingOptions options = options_of(4);
  options.weights = {0.0, 1.0};
  expect_error(ExitCode::kUsage, {"trainable token"}, [&] { BatchStream stream(data, options); });
}

TEST(BatchStream, RefusesACursorOutsideTheEpoch) {
  TempFolder folder;
  const TokenDataset data = dataset_of(folder, counted_documents({4, 4}), test_info(100));
  BatchStream stream(data, options_of(4));
  for (const BatchCursor cursor : {BatchCursor{0, 2}, BatchCursor{-1, 0}, BatchCursor{0, -1}, BatchCursor{7, 100},
                                   BatchCursor{std::int64_t{1} << 50, 0}}) {
    expect_error(ExitCode::kCorrupt, {"cursor"}, [&] { stream.restore(cursor); });
    EXPECT_EQ(stream.cursor(), BatchCursor{});
  }
  EXPECT_EQ(stream.next(1).num_targets, 3);
}

TEST(BatchStream, PlanHashFollowsDataAndOptions) {
  TempFolder folder;
  const TokenDataset data = dataset_of(folder, counted_documents({4, 4}), test_info(100));
  const PackingOptions base = options_of(4);
  const auto hash = [&](const PackingOptions& options) { return BatchStream(data, options).plan_hash(); };
  std::vector<PackingOptions> variants(8, base);
  variants[1].seq_len = 5;
  variants[2].packing = Packing::kStream;
  variants[3].long_documents = LongDocuments::kTruncate;
  variants[4].shuffle = false;
  variants[5].seed = 1;
  variants[6].look_ahead = 3;
  variants[7].weights = {2.0};
  std::vector<std::string> hashes;
  for (const PackingOptions& options : variants) hashes.push_back(hash(options));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_TRUE(std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end());
  EXPECT_EQ(hash(base), hash(base));
  TempFolder other;
  const TokenDataset changed = dataset_of(other, counted_documents({4, 5}), test_info(100));
  EXPECT_NE(BatchStream(changed, base).plan_hash(), hash(base));
}

TEST(Batch, PaddingRowsAddNothing) {
  TempFolder folder;
  const TokenDataset data = dataset_of(folder, counted_documents({4, 3}), test_info(100));
  BatchStream stream(data, options_of(4));
  const Batch batch = stream.next(2);
  Batch padded = batch;
  pad_batch(padded, 5);
  EXPECT_EQ(padded.tokens.size(), 20U);
  EXPECT_EQ(padded.num_targets, batch.num_targets);
  EXPECT_EQ(padded.documents, batch.documents);
  EXPECT_EQ(std::count(padded.labels.begin() + 8, padded.labels.end(), kIgnoreLabel), 12);
  EXPECT_EQ(std::count(padded.source_of_token.begin() + 8, padded.source_of_token.end(), kNoSource), 12);
  Batch back;
  split_batch(padded, 0, 2, back);
  EXPECT_EQ(back, batch);
}

}  // namespace
}  // namespace ida::data
