// Character-level BPE with byte fallback, unknown tokens, Metaspace; expected results follow the `tokenizers` package.
#include <gtest/gtest.h>

#include "support.h"

namespace ida::text {
namespace {

using Tokens = std::vector<std::string>;

const std::string kSpace = "\xE2\x96\x81";  // U+2581

nlohmann::json prepend_and_replace() {
  return {{"type", "Sequence"},
          {"normalizers",
           {{{"type", "Prepend"}, {"prepend", kSpace}},
            {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}}}}};
}

// <unk>, 256 byte tokens, then characters and merges.
nlohmann::json small_model() {
  std::vector<std::string> tokens = {"<unk>"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  for (const char* token : {"a", "b", "c"}) tokens.emplace_back(token);
  tokens.insert(tokens.end(), {kSpace, "ab", kSpace + "ab", kSpace + kSpace, kSpace + "a"});
  nlohmann::json json = bpe_json(tokens, {"a b", kSpace + " ab", kSpace + " " + kSpace, kSpace + " a"});
  json["model"]["unk_token"] = "<unk>";
  json["model"]["byte_fallback"] = true;
  json["model"]["fuse_unk"] = true;
  json["normalizer"] = prepend_and_replace();
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return json;
}

TEST(SentencePieceStyle, MergesAcrossWholeTexts) {
  const Tokenizer tokenizer = make_tokenizer(small_model());
  EXPECT_EQ(tokens_of(tokenizer, "ab ab  abc"), (Tokens{kSpace + "ab", kSpace + "ab", kSpace, kSpace + "ab", "c"}));
  EXPECT_EQ(tokens_of(tokenizer, "   c"), (Tokens{kSpace + kSpace, kSpace + kSpace, "c"}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(SentencePieceStyle, UnknownCharactersBecomeBytes) {
  const Tokenizer tokenizer = make_tokenizer(small_model());
  EXPECT_EQ(tokens_of(tokenizer, "a\xC3\xA9\n"), (Tokens{kSpace + "a", "<0xC3>", "<0xA9>", "<0x0A>"}));
  EXPECT_EQ(tokens_of(tokenizer, "a\xFF"), (Tokens{kSpace + "a", "<0xFF>"}));
  for (const std::string text : {"a b\xC3\xA9\xE6\xBC\xA2", "  ab", "\xFF\xFE tail", " "}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(SentencePieceStyle, UnknownTokensFuseWhenAsked) {
  nlohmann::json json = small_model();
  json["model"]["byte_fallback"] = false;
  EXPECT_EQ(tokens_of(make_tokenizer(json), "xyaz"), (Tokens{kSpace, "<unk>", "a", "<unk>"}));
  json["model"]["fuse_unk"] = false;
  EXPECT_EQ(tokens_of(make_tokenizer(json), "xya"), (Tokens{kSpace, "<unk>", "<unk>", "a"}));
  json["model"]["unk_token"] = nullptr;
  EXPECT_EQ(tokens_of(make_tokenizer(json), "xya"), (Tokens{kSpace + "a"}));  // dropped: the rest moves together
}

TEST(SentencePieceStyle, CuttingAtBlanksIsLeftOutWhereMergesCrossThem) {
  nlohmann::json json = small_model();
  json["model"]["vocab"]["c" + kSpace] = json["model"]["vocab"].size();
  json["model"]["merges"].push_back("c " + kSpace);
  EXPECT_EQ(tokens_of(make_tokenizer(json), "c c"), (Tokens{kSpace, "c" + kSpace, "c"}));
}

TEST(SentencePieceStyle, LongTextsAndLongWords) {
  const Tokenizer tokenizer = make_tokenizer(small_model());
  std::string text;
  for (int i = 0; i < 100000; ++i) text += i == 0 ? "ab" : " ab";
  EXPECT_EQ(tokenizer.encode(text).size(), 100000u);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), 1u << 20);  // the blank takes the first one
  EXPECT_EQ(tokenizer.encode(std::string((1 << 20) - 1, ' ')).size(), 1u << 19);
}

nlohmann::json metaspace(const char* scheme, bool split) {
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}, {"split", split}};
}

TEST(Metaspace, PrependsAlwaysFirstOrNever) {
  const auto tokens_with = [](const nlohmann::json& step, std::string_view text) {
    nlohmann::json json = small_model();
    json["normalizer"] = nullptr;
    json["pre_tokenizer"] = step;
    json["added_tokens"] = {added_token(265, "<x>")};
    return tokens_of(make_tokenizer(json), text);
  };
  EXPECT_EQ(tokens_with(metaspace("always", true), "ab<x>ab"), (Tokens{kSpace + "ab", "<x>", kSpace + "ab"}));
  EXPECT_EQ(tokens_with(metaspace("first", true), "ab<x>ab"), (Tokens{kSpace + "ab", "<x>", "ab"}));
  EXPECT_EQ(tokens_with(metaspace("first", true), "<x>ab"), (Tokens{"<x>", "ab"}));
  EXPECT_EQ(tokens_with(metaspace("never", true), "ab ab"), (Tokens{"ab", kSpace + "ab"}));
  EXPECT_EQ(tokens_with(metaspace("always", true), " ab"), (Tokens{kSpace + "ab"}));
  // With split, two blanks are two words and do not merge.
  EXPECT_EQ(tokens_with(metaspace("never", true), "a  b"), (Tokens{"a", kSpace, kSpace, "b"}));
  EXPECT_EQ(tokens_with(metaspace("never", false), "a  b"), (Tokens{"a", kSpace + kSpace, "b"}));
  // The spelling before prepend_scheme existed.
  const nlohmann::json old = {
      {"type", "Metaspace"}, {"replacement", kSpace}, {"add_prefix_space", true}, {"str_rep", kSpace}};
  EXPECT_EQ(tokens_with(old, "ab"), (Tokens{kSpace + "ab"}));
}

TEST(Metaspace, DecodingDropsTheFirstBlankOnly) {
  nlohmann::json json = small_model();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = json["decoder"] = metaspace("always", true);
  EXPECT_EQ(make_tokenizer(json).decode(make_tokenizer(json).encode("ab ab")), "ab ab");
  json["pre_tokenizer"] = json["decoder"] = metaspace("never", true);
  EXPECT_EQ(make_tokenizer(json).decode(make_tokenizer(json).encode(" ab ab")), " ab ab");
}

TEST(Decoders, WithoutOneTokensAreJoinedByBlanks) {
  nlohmann::json json = small_model();
  json["decoder"] = nullptr;
  EXPECT_EQ(make_tokenizer(json).decode(Ids{257, 258}), "a b");
  json["decoder"] = {{"type", "Strip"}, {"content", "a"}, {"start", 1}, {"stop", 1}};
  EXPECT_EQ(make_tokenizer(json).decode(Ids{257, 258, 261}), "bb");
}

TEST(Normalizers, ActInOrder) {
  nlohmann::json json = bpe_json({"a", "b", "c", " ", "A", "\xC3\xA9"}, {});
  json["decoder"] = {{"type", "Fuse"}};
  const auto normalised = [&json](const nlohmann::json& normalizer, std::string_view text) {
    json["normalizer"] = normalizer;
    const Tokenizer tokenizer = make_tokenizer(json);
    return tokenizer.decode(tokenizer.encode(text));
  };
  const nlohmann::json lower = {{"type", "Lowercase"}};
  const nlohmann::json a_to_b = {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}};
  EXPECT_EQ(normalised({{"type", "Sequence"}, {"normalizers", {lower, a_to_b}}}, "AAa c"), "b c");
  EXPECT_EQ(normalised({{"type", "Sequence"}, {"normalizers", {a_to_b, lower}}}, "AAa c"), "aab c");
  EXPECT_EQ(normalised({{"type", "NFC"}}, "e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(normalised({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "  a "), "a ");
  EXPECT_EQ(normalised({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, "  a "), "  a");
  EXPECT_EQ(normalised({{"type", "Strip"}}, "   "), "");
}

}  // namespace
}  // namespace ida::text
