// Documents packed into a row see neither each other nor their place in it: bit for bit.
#include "support/tiny_model.h"

namespace ida::testing {
namespace {

struct Case {
  const char* name;
  bool busy;  // windows, q/k norm, biases, llama3 frequencies
  DType dtype;
};

class Packing : public ::testing::TestWithParam<Case> {
 protected:
  model::ModelConfig config() const { return GetParam().busy ? busy_config() : tiny_config(); }
  EngineFixture fixture_;
};

TEST_P(Packing, ChangingOneDocumentLeavesTheOthersAlone) {
  const model::ModelConfig config = this->config();
  const data::Batch before = make_batch({{9, 13, 7}, {11, 4, 14}}, 32, config.vocab_size, 21);
  data::Batch after = before;
  for (std::int64_t i = 0; i < 9; ++i) {  // the first document of the first row
    const auto at = static_cast<std::size_t>(i);
    after.tokens[at] = (after.tokens[at] + 17) % static_cast<std::int32_t>(config.vocab_size);
  }
  const train::EngineSpec spec = fixture_.spec(config, before, GetParam().dtype);
  const std::vector<float> a = fixture_.nll(spec, before);
  const std::vector<float> b = fixture_.nll(spec, after);
  EXPECT_FALSE(same_bits(std::span(a).first(9), std::span(b).first(9)));
  EXPECT_TRUE(same_bits(std::span(a).subspan(9), std::span(b).subspan(9)));
}

TEST_P(Packing, PackedEqualsPadded) {
  const model::ModelConfig config = this->config();
  const std::vector<std::int64_t> lengths = {9, 13, 7};
  const data::Batch packed = make_batch({lengths}, 32, config.vocab_size, 4);
  const data::Batch padded = make_batch({{9}, {13}, {7}}, 32, config.vocab_size, 4);  // the same tokens, a row each
  const std::vector<float> a = fixture_.nll(fixture_.spec(config, packed, GetParam().dtype), packed);
  const std::vector<float> b = fixture_.nll(fixture_.spec(config, padded, GetParam().dtype), padded);
  std::size_t at = 0;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto length = static_cast<std::size_t>(lengths[row]);
    EXPECT_TRUE(same_bits(std::span(a).subspan(at, length), std::span(b).subspan(row * 32, length))) << "document " << row;
    at += length;
  }
}

TEST_P(Packing, GradientOfPackedEqualsPadded) {
  if (GetParam().dtype != DType::kF32) GTEST_SKIP() << "bf16 rounds sums of another order differently";
  const model::ModelConfig config = this->config();
  const data::Batch packed = make_batch({{9, 13, 7}}, 32, config.vocab_size, 4);
  const data::Batch padded = make_batch({{9}, {13}, {7}}, 32, config.vocab_size, 4);
  const auto a = fixture_.gradient(fixture_.spec(config, packed), packed);
  const auto b = fixture_.gradient(fixture_.spec(config, padded), padded);
  EXPECT_LT(relative_difference(a.values, b.values), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, Packing,
                         ::testing::Values(Case{"plain_f32", false, DType::kF32}, Case{"busy_f32", true, DType::kF32},
                                           Case{"plain_bf16", false, DType::kBF16}, Case{"busy_bf16", true, DType::kBF16}),
                         [](const auto& param_info) { return param_info.param.name; });

// A window counts positions inside a document: a long document in second place still sees its own last `window` tokens.
TEST(PackingWindow, WindowIsRelativeToTheDocument) {
  EngineFixture fixture;
  model::ModelConfig config = tiny_config();
  config.layer_window = {4, 4};
  const data::Batch packed = make_batch({{10, 20}}, 32, config.vocab_size, 8);
  data::Batch changed = packed;
  changed.tokens[10] = (changed.tokens[10] + 1) % static_cast<std::int32_t>(config.vocab_size);  // its first token
  const train::EngineSpec spec = fixture.spec(config, packed);
  const std::vector<float> a = fixture.nll(spec, packed);
  const std::vector<float> b = fixture.nll(spec, changed);
  // Two layers of window 4 reach back 2 * 3 positions.
  for (std::size_t i = 10; i < 17; ++i) EXPECT_NE(a[i], b[i]) << i;
  for (std::size_t i = 17; i < 30; ++i) EXPECT_EQ(a[i], b[i]) << i;
}

// RoPE is relative: a wrong constant offset would not show in the loss, so positions that are not consecutive are used.
TEST(PackingPositions, PositionsReachTheRotation) {
  EngineFixture fixture;
  const model::ModelConfig config = tiny_config();
  const data::Batch batch = make_batch({{16}}, 16, config.vocab_size, 8);
  data::Batch stretched = batch;
  data::Batch shifted = batch;
  for (std::int32_t& p : stretched.positions) p *= 3;
  for (std::int32_t& p : shifted.positions) p += 40;
  train::EngineSpec spec = fixture.spec(config, batch);
  spec.max_positions = 64;
  const std::vector<float> plain = fixture.nll(spec, batch);
  EXPECT_GT(relative_difference(fixture.nll(spec, stretched), plain), 1e-4);
  EXPECT_LT(relative_difference(fixture.nll(spec, shifted), plain), 1e-5);
}

}  // namespace
}  // namespace ida::testing
