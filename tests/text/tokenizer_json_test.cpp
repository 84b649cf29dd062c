// Reading of tokenizer.json: spellings that are accepted, what is refused by name, what is corrupt.
#include <gtest/gtest.h>

#include "support.h"

namespace ida::text {
namespace {

TEST(TokenizerJson, MergesInBothSpellings) {
  nlohmann::json json = bpe_json({"a", "b", "ab", "abab"}, {"a b", "ab ab"});
  EXPECT_EQ(make_tokenizer(json).encode("abababb"), (Ids{3, 2, 1}));
  json["model"]["merges"] = nlohmann::json::parse(R"([["a", "b"], ["ab", "ab"]])");
  EXPECT_EQ(make_tokenizer(json).encode("abababb"), (Ids{3, 2, 1}));
}

TEST(TokenizerJson, JoinedMergesOfTokensWithBlanks) {
  const nlohmann::json json = bpe_json({" ", "  ", "a", "a "}, {"   ", "a  "});  // " "+" " and "a"+" "
  EXPECT_EQ(make_tokenizer(json).encode("a   "), (Ids{2, 1, 0}));
  EXPECT_EQ(make_tokenizer(json).encode("a "), (Ids{3}));
}

TEST(TokenizerJson, OldFilesWithoutModelType) {
  nlohmann::json json = bpe_json({"a", "b", "ab"}, {"#version: 0.2", "a b"});
  json["model"].erase("type");
  EXPECT_EQ(make_tokenizer(json).encode("ab"), (Ids{2}));
  json["model"].erase("merges");
  expect_error(ExitCode::kUsage, "without `type`", [&] { make_tokenizer(json); });
}

TEST(TokenizerJson, NeutralValuesOfUnsupportedFeaturesAreFine) {
  nlohmann::json json = bpe_json({"a"}, {});
  json["model"]["dropout"] = nullptr;
  json["model"]["continuing_subword_prefix"] = "";
  json["model"]["end_of_word_suffix"] = "";
  EXPECT_EQ(make_tokenizer(json).encode("a"), (Ids{0}));
}

TEST(TokenizerJson, OtherFeaturesAreRefusedByName) {
  struct Case {
    const char* pointer;
    nlohmann::json value;
    const char* words;
  };
  const std::vector<Case> cases = {
      {"/model/type", "Unigram", "model: type `Unigram`"},
      {"/model/type", "WordPiece", "model: type `WordPiece`"},
      {"/model/type", "WordLevel", "model: type `WordLevel`"},
      {"/model/dropout", 0.1, "dropout"},
      {"/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"/model/new_feature", true, "`new_feature`"},
      {"/new_section", 1, "`new_section`"},
      {"/normalizer", {{"type", "BertNormalizer"}}, "normalizer: type `BertNormalizer`"},
      {"/normalizer", {{"type", "NFC"}, {"extra", 1}}, "`extra`"},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, "pre_tokenizer: type `UnicodeScripts`"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "BertPreTokenizer"}}}}},
       "pretokenizers[0]: type"},
      {"/decoder", {{"type", "WordPiece"}}, "decoder: type `WordPiece`"},
      {"/post_processor", {{"type", "Mystery"}}, "post_processor: type `Mystery`"},
      {"/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}, "regex"},
  };
  for (const Case& c : cases) {
    nlohmann::json json = bpe_json({"a"}, {});
    json[nlohmann::json::json_pointer(c.pointer)] = c.value;
    SCOPED_TRACE(c.pointer);
    expect_error(ExitCode::kUsage, c.words, [&] { make_tokenizer(json); });
  }
}

TEST(TokenizerJson, ContradictionsAreCorrupt) {
  struct Case {
    const char* pointer;
    nlohmann::json value;
    const char* words;
  };
  const std::vector<Case> cases = {
      {"/model", nullptr, "model"},
      {"/model", 5, "expected a JSON object"},
      {"/model/vocab", nullptr, "vocab"},
      {"/model/vocab", nlohmann::json::object(), "empty"},
      {"/model/vocab/b", 0, "given to both"},
      {"/model/vocab/b", -1, "id -1"},
      {"/model/vocab/b", 1 << 30, "id 1073741824"},
      {"/model/vocab/b", 1 << 20, "id 1048576"},  // a few bytes of a file may not take a gigabyte
      {"/model/vocab/b", 1.5, "1.5"},
      {"/model/vocab/b", "1", "\"1\""},
      {"/model/merges", "a b", "an array"},
      {"/model/merges", {5}, "merges[0]"},
      {"/model/merges", {"a c"}, "not all in the vocabulary"},
      {"/model/merges", nlohmann::json::parse(R"([["a", "a"]])"), "not all in the vocabulary"},
      {"/model/merges", nlohmann::json::parse(R"([["", "a"]])"), "not all in the vocabulary"},
      {"/model/merges", nlohmann::json::parse(R"([["a"]])"), "merges[0]"},
      {"/model/byte_fallback", "yes", "true or false"},
      {"/model/unk_token", "<lost>", "unk_token"},
      {"/added_tokens", {5}, "expected a JSON object"},
      {"/normalizer", "NFC", "expected a JSON object"},
      {"/normalizer", {{"kind", "NFC"}}, "`type`"},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", ""}}, "not empty"},
      {"/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sideways"}}, "behavior"},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "often"}}, "prepend_scheme"},
  };
  for (const Case& c : cases) {
    nlohmann::json json = bpe_json({"a"}, {});
    json[nlohmann::json::json_pointer(c.pointer)] = c.value;
    SCOPED_TRACE(fmt::format("{} = {}", c.pointer, c.value.dump()));
    expect_error(ExitCode::kCorrupt, c.words, [&] { make_tokenizer(json); });
  }
}

TEST(TokenizerJson, DamagedTextIsCorruptAndDeepTextIsNoCrash) {
  const std::string good = bpe_json({"a"}, {}).dump();
  for (std::size_t length = 0; length < good.size(); ++length) {
    expect_error(ExitCode::kCorrupt, "tokenizer.json", [&] { Tokenizer::from_json(good.substr(0, length)); });
  }
  expect_error(ExitCode::kCorrupt, "nested", [] { Tokenizer::from_json(std::string(1 << 22, '[')); });
  std::string deep = "{\"type\":\"NFC\"}";
  for (int i = 0; i < 100; ++i) deep = "{\"type\":\"Sequence\",\"normalizers\":[" + deep + "]}";
  expect_error(ExitCode::kCorrupt, "nested",
               [&] { Tokenizer::from_json(R"({"model":{"vocab":{"a":0},"merges":[]},"normalizer":)" + deep + "}"); });
  expect_error(ExitCode::kCorrupt, "twice",
               [] { Tokenizer::from_json(R"({"model":{"vocab":{"a":0,"a":1},"merges":[]}})"); });
  expect_error(ExitCode::kCorrupt, "JSON",
               [] { Tokenizer::from_json("{\"model\":{\"vocab\":{\"\xFF\":0},\"merges\":[]}}"); });
}

TEST(TokenizerJson, IdsWithoutATokenAreKnownAsSuch) {
  nlohmann::json json = bpe_json({"a"}, {});
  json["model"]["vocab"]["z"] = 5;
  json["decoder"] = {{"type", "Fuse"}};
  const Tokenizer tokenizer = make_tokenizer(json);
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_EQ(tokenizer.token_of(5), "z");
  EXPECT_EQ(tokenizer.token_of(3), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(-1), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(6), std::nullopt);
  EXPECT_EQ(tokenizer.id_of("z"), 5);
  EXPECT_EQ(tokenizer.id_of("y"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{0, 3, 5, 99, -7}), "az");
}

}  // namespace
}  // namespace ida::text
