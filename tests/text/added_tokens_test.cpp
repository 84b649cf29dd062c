// Added tokens and their flags; expected results were taken from the `tokenizers` package.
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace ida::text {
namespace {

using Tokens = std::vector<std::string>;

// Every character of `letters` is a token; the added tokens follow.
Tokenizer with_added(const std::string& letters, std::vector<nlohmann::json> added, const nlohmann::json& normalizer = {}) {
  std::vector<std::string> tokens;
  for (const char c : letters) tokens.emplace_back(1, c);
  nlohmann::json json = bpe_json(tokens, {});
  std::int64_t id = static_cast<std::int64_t>(letters.size());
  for (nlohmann::json& token : added) token["id"] = id++;
  json["added_tokens"] = added;
  json["normalizer"] = normalizer;
  json["decoder"] = {{"type", "Fuse"}};
  return make_tokenizer(json);
}

nlohmann::json flagged(const std::string& content, const char* flag) {
  nlohmann::json token = added_token(0, content);
  token[flag] = true;
  return token;
}

TEST(AddedTokens, LeftmostThenLongestWins) {
  const Tokenizer tokenizer =
      with_added("abc<>", {added_token(0, "<a>"), added_token(0, "<a>b"), added_token(0, "b<a"), added_token(0, "bc")});
  EXPECT_EQ(tokens_of(tokenizer, "<a>bc"), (Tokens{"<a>b", "c"}));
  EXPECT_EQ(tokens_of(tokenizer, "b<a>"), (Tokens{"b<a", ">"}));
  EXPECT_EQ(tokens_of(tokenizer, "<a<a>"), (Tokens{"<", "a", "<a>"}));
  EXPECT_EQ(tokens_of(tokenizer, "a<"), (Tokens{"a", "<"}));
}

TEST(AddedTokens, StrippingTakesBlanksOfAllKinds) {
  const Tokenizer left = with_added("ab ", {flagged("<l>", "lstrip")});
  EXPECT_EQ(left.encode("a \t\xE3\x80\x80<l> b"), (Ids{0, 3, 2, 1}));
  const Tokenizer right = with_added("ab ", {flagged("<r>", "rstrip")});
  EXPECT_EQ(right.encode("a <r> \xC2\x85 b"), (Ids{0, 2, 3, 1}));
  // Two in a row: the second one finds its blanks taken.
  EXPECT_EQ(left.encode("a <l> <l>"), (Ids{0, 3, 3}));
}

TEST(AddedTokens, AMatchMayStartInsideStrippedBlanks) {
  const Tokenizer tokenizer = with_added("ab ", {flagged("<m>", "rstrip"), added_token(0, "  "), flagged("<l>", "lstrip")});
  EXPECT_EQ(tokenizer.encode("a<m>    b"), (Ids{0, 3, 4, 4, 1}));
  EXPECT_EQ(tokenizer.encode("a  <l>  <l>"), (Ids{0, 4, 5, 4, 5}));
  EXPECT_EQ(tokenizer.encode("<m>  <l> b"), (Ids{3, 4, 5, 2, 1}));
}

TEST(AddedTokens, SingleWordsTouchNoWordCharacter) {
  const Tokenizer tokenizer = with_added("act_ -", {flagged("cat", "single_word")});
  const std::int32_t cat = tokenizer.id_of("cat").value();
  const auto count = [&](std::string_view text) {
    const Ids ids = tokenizer.encode(text);
    return std::count(ids.begin(), ids.end(), cat);
  };
  EXPECT_EQ(count("cat"), 1);
  EXPECT_EQ(count("cat cat-cat"), 3);
  EXPECT_EQ(count("catcat"), 0);
  EXPECT_EQ(count("cat_ acat"), 0);
  EXPECT_EQ(count("\xC3\xA9"
                  "cat cat\xCC\x81"),
            0);  // a letter before, a mark after
  EXPECT_EQ(count("\xFF"
                  "cat\xFF"),
            1);
}

TEST(AddedTokens, NormalizedOnesAreSoughtInNormalisedText) {
  const nlohmann::json lowercase = {{"type", "Lowercase"}};
  const Tokenizer tokenizer = with_added("abc", {flagged("ABC", "normalized"), added_token(0, "CBA")}, lowercase);
  EXPECT_EQ(tokens_of(tokenizer, "abc"), (Tokens{"ABC"}));
  EXPECT_EQ(tokens_of(tokenizer, "AbC"), (Tokens{"ABC"}));
  EXPECT_EQ(tokens_of(tokenizer, "CBA"), (Tokens{"CBA"}));
  EXPECT_EQ(tokens_of(tokenizer, "cba"), (Tokens{"c", "b", "a"}));
}

TEST(AddedTokens, APrependingNormalizerIsPartOfANormalizedToken) {
  nlohmann::json json = bpe_json({"<unk>", "<s>", "\xE2\x96\x81", "a", "<", "s", ">"}, {});
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}}}};
  json["added_tokens"] = {added_token(1, "<s>")};
  json["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(make_tokenizer(json).encode("a <s>"), (Ids{2, 3, 1}));
  EXPECT_EQ(make_tokenizer(json).encode("a<s>"), (Ids{2, 3, 4, 5, 6}));
  json["added_tokens"][0]["normalized"] = false;
  EXPECT_EQ(make_tokenizer(json).encode("a<s>a"), (Ids{2, 3, 1, 2, 3}));
}

TEST(AddedTokens, SpecialOnesCanBeLeftOutOfDecoding) {
  const Tokenizer tokenizer = with_added("ab", {flagged("<s>", "special"), added_token(0, "<x>")});
  const Ids ids = tokenizer.encode("a<s>b<x>");
  EXPECT_EQ(ids, (Ids{0, 2, 1, 3}));
  EXPECT_EQ(tokenizer.decode(ids), "a<s>b<x>");
  EXPECT_EQ(tokenizer.decode(ids, true), "ab<x>");
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(1 << 30));
}

TEST(AddedTokens, OddUnicodeAroundThemDoesNoHarm) {
  const Tokenizer tokenizer = with_added("ab", {flagged("<m>", "rstrip"), flagged("\xE3\x80\x80", "lstrip")});
  for (const char* text :
       {"<m>\xE3\x80", "\xE3\x80\x80\xE3\x80\x80", "<m>\xE3\x80\x80<m>", "\xCC\x81<m>\xCC\x81", "\x80\x80\x80<m>"}) {
    EXPECT_FALSE(tokenizer.encode(text).empty()) << text;
  }
}

TEST(AddedTokens, ThatContradictTheVocabularyAreCorrupt) {
  const auto load = [](std::vector<nlohmann::json> added) {
    nlohmann::json json = bpe_json({"a", "b"}, {});
    json["added_tokens"] = added;
    return make_tokenizer(json);
  };
  EXPECT_EQ(load({added_token(0, "a")}).vocab_size(), 2);
  EXPECT_EQ(load({added_token(7, "c")}).vocab_size(), 8);
  expect_error(ExitCode::kCorrupt, "the vocabulary gives it 0", [&] { load({added_token(2, "a")}); });
  expect_error(ExitCode::kCorrupt, "which is `b` in the vocabulary", [&] { load({added_token(1, "c")}); });
  expect_error(ExitCode::kCorrupt, "given twice", [&] { load({added_token(2, "c"), added_token(3, "c")}); });
  expect_error(ExitCode::kCorrupt, "given twice", [&] { load({added_token(2, "c"), added_token(2, "d")}); });
  expect_error(ExitCode::kCorrupt, "empty string", [&] { load({added_token(2, "")}); });
  expect_error(ExitCode::kCorrupt, "token id -1", [&] { load({added_token(-1, "c")}); });
  expect_error(ExitCode::kCorrupt, "token id 1073741824", [&] { load({added_token(1 << 30, "c")}); });
}

}  // namespace
}  // namespace ida::text
