#include "data/validation_set.h"

#include <map>

#include "data_test_util.h"

namespace ida::data {
namespace {

TEST(ValidationSet, EveryTargetOnceBySource) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents({5, 9, 1, 14, 3, 0, 7});
  for (std::size_t d = 0; d < documents.size(); ++d) documents[d].source = d % 2 == 0 ? 0 : 2;
  const TokenDataset dataset = dataset_of(folder, documents, test_info(100, {"a", "none", "b"}));
  for (const Packing packing : {Packing::kDocuments, Packing::kStream}) {
    PackingOptions options;
    options.seq_len = 4;
    options.packing = packing;
    options.weights = {1.0};  // not used, so not checked either
    const ValidationSet set(dataset, options);
    ASSERT_EQ(set.num_sources(), 3);
    EXPECT_EQ(set.source_name(2), "b");
    EXPECT_EQ(set.num_rows(1), 0);
    std::map<std::int32_t, int> targets;
    std::int64_t bytes = 0;
    Batch batch;
    for (std::int32_t source = 0; source < 3; ++source) {
      for (std::int64_t row = 0; row < set.num_rows(source); row += 3) {
        set.rows(source, row, 3, batch);
        EXPECT_EQ(batch.rows, std::min<std::int64_t>(3, set.num_rows(source) - row));
        bytes += batch.num_target_bytes;
        for (std::size_t i = 0; i < batch.labels.size(); ++i) {
          if (batch.labels[i] == kIgnoreLabel) continue;
          ++targets[batch.labels[i]];
          EXPECT_EQ(batch.source_of_token[i], source);
        }
      }
    }
    const std::size_t num_firsts = packing == Packing::kDocuments ? 6 : 2;
    EXPECT_EQ(targets.size(), 39 - num_firsts);
    for (const auto& [token, count] : targets) EXPECT_EQ(count, 1) << token;
    EXPECT_EQ(bytes, static_cast<std::int64_t>(3 * (39 - num_firsts)));
  }
}

TEST(ValidationSet, BytesAreExactWithBos) {
  TempFolder folder;
  ShardInfo info = test_info(300);
  info.bos_id = 256;
  info.eos_id = 257;
  const TokenDataset dataset =
      dataset_of(folder, {{{256, 1, 2, 3, 4, 5, 6, 7, 257}, 0, {}, 1000}, {{256, 9, 257}, 0, {}, 77}}, info);
  PackingOptions options;
  options.seq_len = 4;
  const ValidationSet set(dataset, options);
  Batch batch;
  set.rows(0, 0, set.num_rows(0), batch);
  EXPECT_EQ(batch.num_target_bytes, 1077);
  EXPECT_EQ(batch.num_targets, 10);
}

TEST(ValidationSet, NothingToEvaluate) {
  TempFolder folder;
  const TokenDataset dataset = dataset_of(folder, counted_documents({1, 0}), test_info(100));
  expect_error(ExitCode::kUsage, {"valid", "trainable"}, [&] { ValidationSet set(dataset, PackingOptions{}); });
}

}  // namespace
}  // namespace ida::data
