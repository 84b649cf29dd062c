#include "data/token_encoder.h"

#include <gtest/gtest.h>

namespace ida::data {
namespace {

struct FakeTokenizer {
  bool adds = false;
  std::string hash = "h";
  std::vector<std::int32_t> encode(std::string_view text, bool add_special = false) const {
    return {add_special ? 1 : 0, static_cast<std::int32_t>(text.size())};
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const {
    return std::string(ids.size() - (skip_special ? 1 : 0), 'x');
  }
  std::int64_t vocab_size() const { return 9; }
  std::optional<std::int32_t> bos_id() const { return 7; }
  std::optional<std::int32_t> eos_id() const { return 8; }
  bool adds_bos() const { return adds; }
  const std::string& content_hash() const { return hash; }
};

TEST(TokenizerEncoder, HasABosOnlyWhenTheTokenizerAddsOne) {
  FakeTokenizer tokenizer;
  const TokenizerEncoder<FakeTokenizer> encoder(tokenizer);
  EXPECT_EQ(encoder.encode("abc"), (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(encoder.text_bytes(encoder.encode("abc")), 1U);
  EXPECT_EQ(encoder.bos_id(), std::nullopt);
  tokenizer.adds = true;
  EXPECT_EQ(encoder.bos_id(), 7);
  EXPECT_EQ(encoder.eos_id(), 8);
  EXPECT_EQ(encoder.vocab_size(), 9);
  EXPECT_EQ(encoder.content_hash(), "h");
}

}  // namespace
}  // namespace ida::data
