// tokenizer train, encode, decode.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

std::string corpus() {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "the quick brown fox number " + std::to_string(i * 7919 % 1000) + " jumps over the lazy dog.\n";
  return text;
}

class TokenizerCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    space_.write("corpus.txt", corpus());
    const Outcome outcome =
        space_.run({"tokenizer", "train", "--vocab-size", "300", "--out", "tok", "--report", "r.json", "corpus.txt"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  Workspace space_;
};

TEST_F(TokenizerCommand, TrainsTheSizeAskedFor) {
  const nlohmann::json figures = read_json(space_ / "r.json");
  EXPECT_EQ(figures["vocab_size"], 300);
  EXPECT_EQ(figures["text_bytes"], corpus().size());
  EXPECT_TRUE(exists(space_ / "tok/tokenizer.json"));
}

TEST_F(TokenizerCommand, TrainsWithTheSettingsGiven) {
  const std::vector<std::string> train = {"tokenizer", "train", "corpus.txt", "--vocab-size", "400", "--out"};
  const auto trained = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> call = train;
    call.push_back(folder);
    call.insert(call.end(), more.begin(), more.end());
    const Outcome outcome = space_.run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_json(space_ / (folder + "/tokenizer.json"));
  };
  const auto plain = trained("plain", {});
  const auto frequent = trained("frequent", {"--min-frequency", "200"});
  EXPECT_LT(frequent["model"]["merges"].size(), plain["model"]["merges"].size());
  EXPECT_GT(frequent["model"]["merges"].size(), 0u);
  const auto special = trained("special", {"--special-token", "<s>", "--special-token", "</s>"});
  EXPECT_EQ(special["model"]["vocab"]["<s>"], 0);
  EXPECT_EQ(special["model"]["vocab"]["</s>"], 1);
  EXPECT_FALSE(special["model"]["vocab"].contains("<|endoftext|>"));
  EXPECT_NE(trained("llama3", {"--pattern", "llama3"})["pre_tokenizer"], plain["pre_tokenizer"]);
  std::vector<std::string> call = train;
  call.insert(call.end(), {"t2", "--pattern", "gpt5"});
  expect_refused(space_.run(call), 2, {"gpt5"});
}

TEST_F(TokenizerCommand, EveryByteComesBack) {
  std::string text = "  leading blanks, tabs\t, \r\n line ends, \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80";
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const Outcome encoded = space_.run({"tokenizer", "encode", "--tokenizer", "tok", "--stdin"}, text);
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_EQ(encoded.out.find_first_not_of("0123456789 \n"), std::string::npos);
  const Outcome decoded = space_.run({"tokenizer", "decode", "--tokenizer", "tok/tokenizer.json", "--stdin"}, encoded.out);
  EXPECT_EQ(decoded.code, 0) << decoded.err;
  EXPECT_EQ(decoded.out, text);
}

TEST_F(TokenizerCommand, ArgumentsAndStdinAgree) {
  const Outcome argument = space_.run({"tokenizer", "encode", "--tokenizer", "tok", "the quick fox"});
  EXPECT_EQ(argument.out, space_.run({"tokenizer", "encode", "--tokenizer", "tok", "--stdin"}, "the quick fox").out);
  std::vector<std::string> call = {"tokenizer", "decode", "--tokenizer", "tok"};
  std::string word;
  for (const char c : argument.out) {
    if (c != ' ' && c != '\n') {
      word += c;
    } else {
      call.push_back(word);
      word.clear();
    }
  }
  EXPECT_EQ(space_.run(call).out, "the quick fox");
  // A text that is also the name of a command is text.
  EXPECT_EQ(space_.run({"tokenizer", "encode", "--tokenizer", "tok", "train"}).code, 0);
}

TEST_F(TokenizerCommand, AddedTokensInTheTextAreRecognised) {
  EXPECT_EQ(space_.run({"tokenizer", "encode", "--tokenizer", "tok", "--stdin"}, "<|endoftext|>").out, "0\n");
  EXPECT_EQ(space_.run({"tokenizer", "encode", "--tokenizer", "tok", "--stdin"}, "").out, "\n");
}

TEST_F(TokenizerCommand, Refusals) {
  expect_refused(space_.run({"tokenizer", "decode", "--tokenizer", "tok", "12", "x7"}), 2, {"'x7'", "from 0 to 299"});
  expect_refused(space_.run({"tokenizer", "decode", "--tokenizer", "tok", "300"}), 2, {"'300'"});
  expect_refused(space_.run({"tokenizer", "decode", "--tokenizer", "tok"}), 2, {"--stdin"});
  expect_refused(space_.run({"tokenizer", "encode", "--tokenizer", "tok"}), 2, {"--stdin"});
  expect_refused(space_.run({"tokenizer", "encode", "--tokenizer", "tok", "--stdin", "text"}), 2, {"--stdin"});
  expect_refused(space_.run({"tokenizer", "train", "--vocab-size", "100", "--out", "t2", "corpus.txt"}), 2, {"100"});
  space_.write("bad/tokenizer.json", "{");
  expect_refused(space_.run({"tokenizer", "encode", "--tokenizer", "bad", "x"}), 4, {"bad/tokenizer.json"});
}

TEST(TokenizerOfSentencePieces, SpecialAddsBos) {
  const auto shared = shared_data();
  if (!shared) GTEST_SKIP() << "shared data is not here";
  const Workspace space;
  const std::string tokenizer = *shared + "/models/stories260K/hf";
  const std::string plain = space.run({"tokenizer", "encode", "--tokenizer", tokenizer, "Once upon"}).out;
  EXPECT_EQ(space.run({"tokenizer", "encode", "--tokenizer", tokenizer, "--special", "Once upon"}).out, "1 " + plain);
}

}  // namespace
}  // namespace ida::app_test
