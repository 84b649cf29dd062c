#include "text/unicode.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "text/byte_alphabet.h"

namespace ida::text {
namespace {

using Runs = std::vector<std::pair<std::string, bool>>;

Runs runs_of(std::string_view text) {
  Runs runs;
  for_each_utf8_run(text, [&](std::string_view run, bool valid) { runs.emplace_back(run, valid); });
  return runs;
}

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char c = decode_utf8(text, 0);
    ASSERT_TRUE(c.valid && c.code == code && c.length == text.size()) << static_cast<unsigned>(code);
  }
}

TEST(Utf8, OverlongSurrogateTruncatedAndTooLargeFormsAreInvalid) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xFF", "\xE2\x96", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(decode_utf8(text, 0).valid) << testing::PrintToString(std::string(text));
    EXPECT_FALSE(is_valid_utf8(text));
  }
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("plain \xE2\x96\x81 \xF4\x8F\xBF\xBF"));
}

TEST(Utf8, RunsCoverTheTextInOrder) {
  EXPECT_EQ(runs_of(""), Runs{});
  EXPECT_EQ(runs_of("ab\xFF\xFE"
                    "c\xC3\xA9\xC3"),
            (Runs{{"ab", true}, {"\xFF\xFE", false}, {"c\xC3\xA9", true}, {"\xC3", false}}));
  EXPECT_EQ(runs_of("0123456789abcdef\xFFz"), (Runs{{"0123456789abcdef", true}, {"\xFF", false}, {"z", true}}));
}

TEST(Properties, WhiteSpaceIsThePropertyNotTheSeparatorCategories) {
  for (const char32_t code : {U'\t', U'\r', U' ', U'\x85', U'\u00A0', U'\u1680', U'\u2028', U'\u3000'}) {
    EXPECT_TRUE(is_white_space(code)) << static_cast<unsigned>(code);
  }
  for (const char32_t code : {U'\u180E', U'\u200B', U'\uFEFF', U'\x1C', U'a'}) {
    EXPECT_FALSE(is_white_space(code)) << static_cast<unsigned>(code);
  }
}

TEST(Properties, NumericMeansAllThreeNumberCategories) {
  for (const char32_t code : {U'7', U'\u0663', U'\u2167', U'\u00BD', U'\u00B2'}) EXPECT_TRUE(is_numeric(code));
  for (const char32_t code : {U'a', U'\u4E00', U'.'}) EXPECT_FALSE(is_numeric(code));  // the numeral one is a letter
}

TEST(Properties, WordsAndPunctuation) {
  for (const char32_t code : {U'_', U'a', U'0', U'\u0301', U'\u2167', U'\u203F', U'\u24D0', U'\u200D'}) {
    EXPECT_TRUE(is_word_char(code)) << static_cast<unsigned>(code);
  }
  for (const char32_t code : {U'-', U' ', U'\u00BD', U'\u20AC'}) EXPECT_FALSE(is_word_char(code));
  for (const char32_t code : {U'$', U'~', U'!', U'\u3002', U'\u00BF'}) EXPECT_TRUE(is_punctuation(code));
  for (const char32_t code : {U'a', U' ', U'\u20AC'}) EXPECT_FALSE(is_punctuation(code));
}

TEST(NormalForms, ComposeDecomposeAndKeepInvalidBytes) {
  const std::string angstrom = "\xE2\x84\xAB";  // U+212B
  EXPECT_EQ(normalize_utf8(angstrom, NormalForm::kNfc), "\xC3\x85");
  EXPECT_EQ(normalize_utf8(angstrom, NormalForm::kNfd), "A\xCC\x8A");
  EXPECT_EQ(normalize_utf8("\xEF\xAC\x81", NormalForm::kNfc), "\xEF\xAC\x81");  // ligature fi
  EXPECT_EQ(normalize_utf8("\xEF\xAC\x81", NormalForm::kNfkc), "fi");
  EXPECT_EQ(normalize_utf8("e\xCC\x81\xFF\xCC\x81", NormalForm::kNfc), "\xC3\xA9\xFF\xCC\x81");
  // Marks are sorted by class (U+0323 below before U+0301 above), and Hangul is algorithmic.
  EXPECT_EQ(normalize_utf8("q\xCC\x81\xCC\xA3", NormalForm::kNfc), "q\xCC\xA3\xCC\x81");
  EXPECT_EQ(normalize_utf8("\xEA\xB0\x81", NormalForm::kNfd), "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
  EXPECT_EQ(normalize_utf8("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", NormalForm::kNfc), "\xEA\xB0\x81");
}

TEST(NormalForms, LongRunsOfMarksTakeNoQuadraticTime) {
  // 2^18 alternating marks: sorting them by swaps would take 10^10 steps.
  std::string marks = "e";
  std::string sorted = "e";
  constexpr int kPairs = 1 << 17;
  for (int i = 0; i < kPairs; ++i) marks += "\xCC\x81\xCC\xA3";
  for (int i = 0; i < kPairs; ++i) sorted += "\xCC\xA3";
  for (int i = 0; i < kPairs; ++i) sorted += "\xCC\x81";
  EXPECT_EQ(normalize_utf8(marks, NormalForm::kNfd), sorted);
}

TEST(Lowercase, FullMappingWithoutContext) {
  EXPECT_EQ(lowercase_utf8("ABC\xC3\x89\xCE\xA3"), "abc\xC3\xA9\xCF\x83");  // a final capital sigma too
  EXPECT_EQ(lowercase_utf8("\xC4\xB0"), "i\xCC\x87");                       // U+0130 becomes two code points
  EXPECT_EQ(lowercase_utf8("A\xFF"
                           "B"),
            "a\xFF"
            "b");
}

TEST(ByteAlphabet, IsABijectionOfPrintableCharacters) {
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t code = byte_to_char(static_cast<unsigned char>(byte));
    EXPECT_EQ(char_to_byte(code), byte);
    EXPECT_TRUE(code > 0x20 && code != 0x7F && !(code >= 0x80 && code < 0xA1) && code != 0xAD) << byte;
  }
  EXPECT_EQ(byte_to_char(' '), U'\u0120');
  EXPECT_EQ(byte_to_char('\n'), U'\u010A');
  EXPECT_EQ(bytes_to_alphabet("a \xC3\xA9"), "a\xC4\xA0\xC3\x83\xC2\xA9");
  EXPECT_EQ(alphabet_to_bytes("a\xC4\xA0\xC3\x83\xC2\xA9"), "a \xC3\xA9");
  EXPECT_EQ(alphabet_to_bytes("a b"), std::nullopt);
  EXPECT_EQ(alphabet_to_bytes("\xC5\x84"), std::nullopt);  // U+0144, one past the last
}

}  // namespace
}  // namespace ida::text
