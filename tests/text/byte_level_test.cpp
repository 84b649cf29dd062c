// Byte-level tokenizers: exact round trips of any bytes, pre-tokenizers, threads.
#include <gtest/gtest.h>

#include <thread>

#include "base/rng.h"
#include "support.h"
#include "text/byte_alphabet.h"

namespace ida::text {
namespace {

nlohmann::json byte_level(bool use_regex, bool add_prefix_space = false) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

// 256 bytes (id = byte) and a few merges: "th" 256, "the" 257, " the" 258, "aa" 259, "aaaa" 260, "  " 261.
nlohmann::json small_byte_level() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(bytes_to_alphabet(std::string(1, static_cast<char>(byte))));
  const std::string blank = tokens[' '];
  const std::vector<std::string> merges = {"t h", "th e", blank + " the", "a a", "aa aa", blank + " " + blank};
  for (const std::string& merge : merges) {
    const std::size_t cut = merge.find(' ');
    tokens.push_back(merge.substr(0, cut) + merge.substr(cut + 1));
  }
  nlohmann::json json = bpe_json(tokens, merges);
  json["pre_tokenizer"] = byte_level(true);
  json["decoder"] = byte_level(true);
  return json;
}

nlohmann::json sequence(const std::vector<nlohmann::json>& steps) {
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

nlohmann::json split(const nlohmann::json& pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

// Where words begin: every word of one byte's repetition shows as its own merge-free tokens, so words are read off
// the ids of a vocabulary in which "aa" merges inside a word only.
std::vector<std::size_t> lengths(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::size_t> result;
  for (const std::int32_t id : tokenizer.encode(text)) result.push_back(tokenizer.decode(Ids{id}).size());
  return result;
}

TEST(ByteLevel, MergesInsideWordsOnly) {
  const Tokenizer tokenizer = make_tokenizer(small_byte_level());
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.encode("   the"), (Ids{261, 258}));
  EXPECT_EQ(tokenizer.encode("aaaaaaa"), (Ids{260, 259, 'a'}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(ByteLevel, AnyBytesComeBack) {
  const Tokenizer tokenizer = make_tokenizer(small_byte_level());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::string text(bounded_at(seed, 1, 0, 300), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) {
      // Half of the seeds are mostly letters with an invalid byte now and then.
      const std::uint64_t value = bits_at(seed, 0, i);
      text[i] = seed % 2 == 0 || value % 5 == 0 ? static_cast<char>(value >> 8) : "the a"[value % 5];
    }
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << seed;
  }
}

TEST(ByteLevel, InvalidBytesAreWordsOfTheirOwn) {
  const Tokenizer tokenizer = make_tokenizer(small_byte_level());
  EXPECT_EQ(tokenizer.encode("the\xFF\xFE the\xC3"), (Ids{257, 0xFF, 0xFE, 258, 0xC3}));
}

TEST(ByteLevel, AMegabyteOfOneKindTakesNoQuadraticTime) {
  const Tokenizer tokenizer = make_tokenizer(small_byte_level());
  constexpr std::size_t kSize = 1 << 20;
  const auto count = [&](const std::string& text) {
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    return ids.size();
  };
  EXPECT_EQ(count(std::string(kSize, 'a')), kSize / 4);
  EXPECT_EQ(count(std::string(kSize, ' ')), kSize / 2);
  EXPECT_EQ(count(std::string(kSize, '\xFF')), kSize);
  std::string mixed;
  for (std::size_t i = 0; i < kSize / 2; ++i) mixed += "a\xFF";
  EXPECT_EQ(count(mixed), kSize);
}

TEST(ByteLevel, PrefixBlankIsPutOnce) {
  nlohmann::json json = small_byte_level();
  json["pre_tokenizer"] = byte_level(true, true);
  const Tokenizer tokenizer = make_tokenizer(json);
  EXPECT_EQ(tokenizer.encode("the"), (Ids{258}));
  EXPECT_EQ(tokenizer.encode(" the"), (Ids{258}));
}

TEST(ByteLevel, IgnoreMergesTakesWholeWords) {
  nlohmann::json json = small_byte_level();
  json["model"]["vocab"]["xyz"] = 262;  // no merge leads to it
  EXPECT_EQ(make_tokenizer(json).encode("xyz"), (Ids{'x', 'y', 'z'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(make_tokenizer(json).encode("xyz"), (Ids{262}));
  EXPECT_EQ(make_tokenizer(json).encode("xyzz"), (Ids{'x', 'y', 'z', 'z'}));
}

TEST(ByteLevel, DigitsAreUnicodeNumbers) {
  nlohmann::json json = small_byte_level();
  json["model"]["vocab"]["11"] = 262;
  json["model"]["merges"].push_back("1 1");
  EXPECT_EQ(make_tokenizer(json).encode("11"), (Ids{262}));
  json["pre_tokenizer"] = sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  EXPECT_EQ(make_tokenizer(json).encode("11"), (Ids{'1', '1'}));
  // U+00BD (C2 BD) would merge with a following C2 if it were not a number.
  json["model"]["vocab"][bytes_to_alphabet("\xBD\xC2")] = 263;
  json["model"]["merges"].push_back(bytes_to_alphabet("\xBD") + " " + bytes_to_alphabet("\xC2"));
  EXPECT_EQ(make_tokenizer(json).encode("\xC2\xBD\xC2\xBD"), (Ids{0xC2, 0xBD, 0xC2, 0xBD}));
  json["pre_tokenizer"] = sequence({{{"type", "Digits"}, {"individual_digits", false}}, byte_level(true)});
  EXPECT_EQ(make_tokenizer(json).encode("\xC2\xBD\xC2\xBD"), (Ids{0xC2, 263, 0xBD}));
}

TEST(ByteLevel, SplitBehaviors) {
  const auto lengths_with = [](const char* behavior, bool invert) {
    nlohmann::json json = small_byte_level();
    json["pre_tokenizer"] = sequence({split({{"String", "a"}}, behavior, invert), byte_level(false)});
    return lengths(make_tokenizer(json), "xaaay");  // "aa" merges when two a lie in one word
  };
  using Lengths = std::vector<std::size_t>;
  EXPECT_EQ(lengths_with("Isolated", false), (Lengths{1, 1, 1, 1, 1}));
  EXPECT_EQ(lengths_with("Removed", false), (Lengths{1, 1}));
  EXPECT_EQ(lengths_with("Removed", true), (Lengths{1, 1, 1}));
  EXPECT_EQ(lengths_with("Contiguous", false), (Lengths{1, 2, 1, 1}));             // x|aaa|y
  EXPECT_EQ(lengths_with("MergedWithPrevious", false), (Lengths{1, 1, 1, 1, 1}));  // xa|a|a|y
  EXPECT_EQ(lengths_with("MergedWithNext", false), (Lengths{1, 1, 1, 1, 1}));      // x|a|a|ay
}

TEST(ByteLevel, StepsAfterItSeeTheByteAlphabet) {
  // The middle byte of U+00B2's neighbours: byte B2 is spelled with the number U+00B2, which Digits then isolates.
  nlohmann::json json = small_byte_level();
  json["model"]["vocab"][bytes_to_alphabet("\xC3\xB2")] = 262;
  json["model"]["merges"].push_back(bytes_to_alphabet("\xC3") + " " + bytes_to_alphabet("\xB2"));
  EXPECT_EQ(make_tokenizer(json).encode("\xC3\xB2"), (Ids{262}));
  json["pre_tokenizer"] = sequence({byte_level(true), {{"type", "Digits"}, {"individual_digits", true}}});
  EXPECT_EQ(make_tokenizer(json).encode("\xC3\xB2"), (Ids{0xC3, 0xB2}));
}

TEST(ByteLevel, VocabulariesOfRawBytesRoundTrip) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 128; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (int byte = 128; byte < 256; ++byte) tokens.push_back(fmt::format("\\x{:02x}", byte));
  nlohmann::json json = bpe_json(tokens, {});
  json["pre_tokenizer"] = byte_level(true);
  json["decoder"] = byte_level(true);
  const Tokenizer tokenizer = make_tokenizer(json);
  const std::string text = "a b\n\xC3\xA9\xFF";
  EXPECT_EQ(tokenizer.encode(text), (Ids{'a', ' ', 'b', '\n', 0xC3, 0xA9, 0xFF}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(ByteLevel, BytesWithoutATokenBecomeTheUnknownTokenOrNothing) {
  nlohmann::json json = bpe_json({"<unk>", "a"}, {});
  json["pre_tokenizer"] = byte_level(true);
  EXPECT_EQ(make_tokenizer(json).encode("xxaxa"), (Ids{1, 1}));
  json["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(make_tokenizer(json).encode("xxaxa"), (Ids{0, 0, 1, 0, 1}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(make_tokenizer(json).encode("xxaxa"), (Ids{0, 1, 0, 1}));
}

TEST(ByteLevel, ThreadsAndTokenizersDoNotMixTheirCaches) {
  nlohmann::json other_json = small_byte_level();
  other_json["model"]["merges"] = nlohmann::json::array();
  const Tokenizer tokenizer = make_tokenizer(small_byte_level());
  const Tokenizer other = make_tokenizer(other_json);
  std::vector<std::thread> threads;
  std::vector<int> failures(4, 0);
  for (std::size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        if (tokenizer.encode("the aaaa") != Ids{257, ' ', 260}) ++failures[t];
        if (other.encode("the") != Ids{'t', 'h', 'e'}) ++failures[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace ida::text
