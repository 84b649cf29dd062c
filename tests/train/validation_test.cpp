#include "train/validation.h"

#include <unistd.h>

#include <filesystem>

#include "data/shard_writer.h"
#include "support/tiny_model.h"

namespace ida::testing {
namespace {

namespace fs = std::filesystem;

class Validation : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { fs::remove_all(folder_); }

  // Documents `begin` to `end` of a corpus whose third document has a mask.
  data::TokenDataset dataset(std::size_t begin, std::size_t end) {
    const std::vector<std::int64_t> lengths = {9, 13, 7, 40, 2, 31, 5};  // one longer than a row
    const std::string path = fmt::format("{}/{}-{}.shard", folder_, begin, end);
    data::ShardInfo info;
    info.vocab_size = 61;
    info.source_names = {"valid"};
    data::ShardWriter writer(path, info);
    std::uint64_t drawn = 0;
    for (std::size_t d = 0; d < std::min(end, lengths.size()); ++d) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t i = 0; i < lengths[d]; ++i)
        tokens.push_back(static_cast<std::int32_t>(bounded_at(3, 1, drawn++, 61)));
      std::vector<std::uint8_t> trained;
      if (d == 2) trained = {0, 0, 1, 1, 0, 0, 1};
      if (d >= begin) writer.add_document({.tokens = tokens, .trained = trained, .source = 0, .text_bytes = tokens.size()});
    }
    writer.finish();
    return data::TokenDataset::open({path});
  }

  std::string folder_ = (fs::temp_directory_path() / "ida-validation-XXXXXX").string();
  EngineFixture fixture_;
};

// The loss of a set is the token-weighted mean over its documents, however they share rows.
TEST_F(Validation, PackedEqualsEachDocumentAlone) {
  data::Batch shape;
  data::reset_batch(shape, 2, 32);
  train::Engine engine(fixture_.spec(busy_config(), shape), fixture_.device(), fixture_.backend());
  engine.set_masters(random_masters(engine.table(), 7));
  data::PackingOptions packing;
  packing.seq_len = 32;
  const data::TokenDataset all = dataset(0, 7);
  const data::ValidationSet packed(all, packing);
  const train::SourceLoss together = train::validate(engine, packed).total();
  EXPECT_LT(packed.num_rows(0), 7) << "some documents share a row";
  train::SourceLoss alone;
  for (std::size_t d = 0; d < 7; ++d) {
    const data::TokenDataset one = dataset(d, d + 1);
    const train::SourceLoss loss = train::validate(engine, data::ValidationSet(one, packing)).total();
    alone.nll_sum += loss.nll_sum;
    alone.targets += loss.targets;
    alone.bytes += loss.bytes;
  }
  EXPECT_EQ(together.targets, alone.targets);
  EXPECT_EQ(together.targets, 8 + 12 + 3 + 39 + 1 + 30 + 4);
  EXPECT_EQ(together.bytes, alone.bytes);
  // The terms are the same bits; only the order of a sum in f64 differs.
  EXPECT_NEAR(together.nll_sum, alone.nll_sum, 1e-12 * alone.nll_sum);
}

}  // namespace
}  // namespace ida::testing
