#include "text/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support.h"
#include "text/word_patterns.h"

namespace ida::text {
namespace {

// The parts of `text`, matches and gaps alike; gaps are marked by a tilde.
std::vector<std::string> parts_of(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "test");
  std::vector<std::string> parts;
  regex.for_each_part(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    parts.push_back((is_match ? "" : "~") + std::string(text.substr(begin, end - begin)));
  });
  return parts;
}

using Parts = std::vector<std::string>;

TEST(WordPatterns, Gpt2LeavesTheLastBlankToTheNextWord) {
  EXPECT_EQ(parts_of(kGpt2Pattern, "I've  12 cats!?\n\n x"), (Parts{"I", "'ve", " ", " 12", " cats", "!?", "\n\n", " x"}));
  EXPECT_EQ(parts_of(kGpt2Pattern, "DON'T"), (Parts{"DON", "'", "T"}));
  EXPECT_EQ(parts_of(kGpt2Pattern, "x   "), (Parts{"x", "   "}));
  EXPECT_EQ(parts_of(kGpt2Pattern, "3\xC2\xBD"), (Parts{"3\xC2\xBD"}));  // U+00BD is a number
}

TEST(WordPatterns, Llama3SplitsNumbersByThreeAndIgnoresCaseInContractions) {
  EXPECT_EQ(parts_of(kLlama3Pattern, "DON'T 12345!\n\n  a"), (Parts{"DON", "'T", " ", "123", "45", "!\n\n", " ", " a"}));
  EXPECT_EQ(parts_of(kQwen2Pattern, "a123"), (Parts{"a", "1", "2", "3"}));
  EXPECT_EQ(parts_of(kLlama3Pattern, " \n \n  b"), (Parts{" \n \n", " ", " b"}));
}

TEST(Regex, BlankMeansWhiteSpaceNotPcre2sWiderSet) {
  // U+180E counts as a blank for PCRE2; to the tokenizers it is an ordinary sign.
  EXPECT_EQ(parts_of(R"(\s+)",
                     "a\xE1\xA0\x8E"
                     "b\xC2\x85 c"),
            (Parts{"~a\xE1\xA0\x8E"
                   "b",
                   "\xC2\x85 ", "~c"}));
  EXPECT_EQ(parts_of(kGpt2Pattern, "\xE1\xA0\x8E"), (Parts{"\xE1\xA0\x8E"}));
  EXPECT_EQ(parts_of(R"([^\s]+)", "a b"), (Parts{"a", "~ ", "b"}));
}

TEST(Regex, WordsIncludeMarksAndHexDigitsAreTranslated) {
  EXPECT_EQ(parts_of(R"(\w+)", "e\xCC\x81-_9"), (Parts{"e\xCC\x81", "~-", "_9"}));
  EXPECT_EQ(parts_of(R"(\h+)", "cafe xyz"), (Parts{"cafe", "~ xyz"}));
  EXPECT_EQ(parts_of(R"(\u0041+)", "AAB"), (Parts{"AA", "~B"}));
}

TEST(Regex, NestedClassesAreUnions) {
  EXPECT_EQ(parts_of(R"([^(\s|[.,!])]+)", "ab, (c)|d"), (Parts{"ab", "~, (", "c", "~)|", "d"}));
  expect_error(ExitCode::kUsage, "intersection", [] { Regex("[a-z&&b]", "here"); });
  expect_error(ExitCode::kUsage, "negated class", [] { Regex("[a[^b]]", "here"); });
  expect_error(ExitCode::kUsage, "here", [] { Regex("(", "here"); });
  expect_error(ExitCode::kUsage, "without its end", [] { Regex("[a", "here"); });
}

TEST(Regex, EmptyMatchesCutGaps) { EXPECT_EQ(parts_of("(?=[A-Z])", "aBcD"), (Parts{"~a", "", "~Bc", "", "~D"})); }

TEST(Regex, LongTextsOfOneKindMatchInOnePiece) {
  for (const char c : {'a', '1', '!', ' ', '\n'}) {
    const std::string text(1 << 20, c);
    EXPECT_EQ(parts_of(kGpt2Pattern, text).size(), 1u) << c;
  }
  const std::string blanks = std::string(1 << 20, ' ') + "a";
  EXPECT_EQ(parts_of(kLlama3Pattern, blanks).size(), 2u);
}

TEST(Regex, ExponentialPatternsAreAnErrorNotAHang) {
  const Regex regex("(a+)+$", "test");
  const std::string text = std::string(40, 'a') + "b";
  std::size_t begin = 0;
  std::size_t end = 0;
  expect_error(ExitCode::kRuntime, "match limit", [&] { regex.find(text, 0, begin, end); });
}

}  // namespace
}  // namespace ida::text
