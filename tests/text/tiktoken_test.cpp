// Rank files: "<base64> <rank>" lines.
#include <gtest/gtest.h>

#include <fstream>

#include "support.h"
#include "text/byte_alphabet.h"

namespace ida::text {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// All bytes (rank = byte), then some longer tokens.
std::string small_ranks() {
  std::string text;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte)
    text += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(byte))), rank++);
  for (const char* token : {"th", "he", "the", " the", "qzx", "12", "123"})
    text += fmt::format("{} {}\n", base64(token), rank++);
  return text;
}

class RankFile : public testing::Test {
 protected:
  Tokenizer load(const std::string& content) {
    std::ofstream(folder_ / "tokenizer.model", std::ios::binary) << content;
    return Tokenizer::load(folder_);
  }
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RankFile, EncodesByRankWithTheLlama3Pattern) {
  const Tokenizer tokenizer = load(small_ranks());
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{258, 259}));
  EXPECT_EQ(tokenizer.encode("thhe"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer.encode("12345"), (Ids{262, '4', '5'}));
  EXPECT_EQ(tokenizer.encode("qzx"), (Ids{260}));  // no merges lead to it: the whole word is a token
  const std::string bytes = "\xFFzz \xC3";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
}

TEST_F(RankFile, HasTheSpecialTokensOfLlama3) {
  const Tokenizer tokenizer = load(small_ranks());
  EXPECT_EQ(tokenizer.vocab_size(), 263 + 256);
  EXPECT_EQ(tokenizer.bos_id(), 263);
  EXPECT_EQ(tokenizer.eos_id(), 264);
  EXPECT_EQ(tokenizer.id_of("<|start_header_id|>"), 263 + 6);
  EXPECT_EQ(tokenizer.id_of("<|eot_id|>"), 263 + 9);
  EXPECT_EQ(tokenizer.id_of("<|reserved_special_token_250|>"), 263 + 255);
  EXPECT_EQ(tokenizer.encode("the<|eot_id|>", true), (Ids{263, 258, 272}));
}

TEST_F(RankFile, TokensLongerThan1024BytesAreRefused) {
  const auto with_token = [](std::size_t size) { return small_ranks() + base64(std::string(size, 'y')) + " 263\n"; };
  EXPECT_EQ(load(with_token(1024)).encode(std::string(1024, 'y')), (Ids{263}));
  expect_error(ExitCode::kCorrupt, "tokenizer.model:264: a token of 1025 bytes", [&] { load(with_token(1025)); });
}

TEST_F(RankFile, SavesAnEquivalentTokenizerJson) {
  const Tokenizer tokenizer = load(small_ranks());
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json());
  for (const char* text : {"the 123 thhe\n\n", "<|begin_of_text|>x", "qzx \xF0\x9F\x98\x80"}) {
    EXPECT_EQ(again.encode(text, true), tokenizer.encode(text, true));
  }
  EXPECT_EQ(again.content_hash(), tokenizer.content_hash());
}

TEST_F(RankFile, MergesAreTheCutsOfTokensByTheRanksOfTheirParts) {
  const Tokenizer tokenizer = load(fmt::format("{} 1\n{} 2\n{} 0\n", base64("aa"), base64("aaa"), base64("a")));
  const nlohmann::json json = nlohmann::json::parse(tokenizer.to_json());
  EXPECT_EQ(json["model"]["merges"], nlohmann::json::parse(R"([["a", "a"], ["a", "aa"], ["aa", "a"]])"));
}

TEST_F(RankFile, DamageIsNamed) {
  expect_error(ExitCode::kUsage, "SentencePiece", [&] { load("\n\x0E\n\x05<unk>"); });
  expect_error(ExitCode::kCorrupt, ":2: expected", [&] { load("IQ== 0\nIg==\n"); });
  expect_error(ExitCode::kCorrupt, ":2: expected", [&] { load("IQ== 0\nI*== 1\n"); });
  expect_error(ExitCode::kCorrupt, ":2: expected", [&] { load("IQ== 0\nIg== -1\n"); });
  expect_error(ExitCode::kCorrupt, "twice", [&] { load("IQ== 0\nIQ== 1\n"); });
  expect_error(ExitCode::kCorrupt, "given to both", [&] { load("IQ== 0\nIg== 0\n"); });
}

}  // namespace
}  // namespace ida::text
