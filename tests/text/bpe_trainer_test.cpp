#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "support.h"
#include "text/byte_alphabet.h"

namespace ida::text {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

Merges merges_of(const Tokenizer& tokenizer) {
  return nlohmann::json::parse(tokenizer.to_json())["model"]["merges"].get<Merges>();
}

Tokenizer train(const std::vector<std::string>& documents, BpeTrainerOptions options) {
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  return train_byte_level_bpe(views, options);
}

const std::vector<std::string> kDocuments = {
    "The river carries the stones, and the stones remember the river.\nIt's 1984, or 2024; they don't care.\n",
    "A tokenizer turns text into numbers: the longer the text, the longer the list. Numbers turn back into text.\n"
    "    indented    lines    keep    their    blanks\n",
    "\xC3\x9Cn\xC3\xAF"
    "c\xC3\xB6"
    "d\xC3\xA9 and \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E and \xE6\x97\xA5\xE6\x9C\xAC are bytes to it. "
    "aaaaaaaa aaaa aaaaaaaaaaaa\n"};

// What the `tokenizers` package 0.23 learns from kDocuments with vocab_size 310, min_frequency 2.
TEST(BpeTrainer, EqualsThePackage) {
  // clang-format off
  const std::vector<std::string> expected = {
      "a a", "Ġ t", "h e", "Ġ Ġ", "aa aa", "Ġt he", "e r", "e s", "o n", "ĠĠ Ġ", "a n", "i n", "Ġ l", "a r",
      "b er", "e x", "m ber", "r i", "s t", "Ġ b", "Ġ aaaa", "Ġ an", "Ġ in", "Ġt ex", "Ġan d", "Ġtex t",
      "c ar", "e n", "g er", "r n", "t o", "u mber", "u rn", "v er", "¥ æ", "æ Ĺ", "Ġ ri", "Ġ st", "Ġ car",
      "Ġ æĹ", "ľ ¬", "Ġt o", "Ġt urn", "on es", "on ger", "Ġl onger", "Ġaaaa aaaa", "Ġin to", "umber s",
      "¥æ ľ¬", "Ġri ver", "Ġst ones", "ĠæĹ ¥æľ¬"};
  // clang-format on
  const Tokenizer tokenizer = train(kDocuments, {.vocab_size = 310, .min_frequency = 2});
  std::vector<std::string> merges;
  for (const auto& [left, right] : merges_of(tokenizer)) merges.push_back(left + " " + right);
  EXPECT_EQ(merges, expected);
  EXPECT_EQ(tokenizer.vocab_size(), 310);
  EXPECT_EQ(tokenizer.encode("The stones don't remember \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E.<|endoftext|>aaaaa"),
            (Ids{52, 259, 308, 221, 68, 265, 7, 84, 221, 82, 69, 77, 69, 273, 309, 165, 104, 253, 14, 0, 261, 65}));
}

// The definition on words of one run of letters each: count all pairs anew for every merge.
Merges train_plainly(const std::vector<std::string>& words, std::int64_t vocab_size, std::int64_t min_frequency) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& word : words) ++counts[word];
  std::vector<std::string> tokens = {"<|endoftext|>"};
  for (char32_t code = 0; code < 400; ++code) {
    if (char_to_byte(code) >= 0) tokens.push_back(bytes_to_alphabet(std::string(1, static_cast<char>(char_to_byte(code)))));
  }
  const auto id_of = [&](const std::string& token) {
    return static_cast<std::int32_t>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
  };
  std::vector<std::pair<std::vector<std::int32_t>, std::int64_t>> sequences;
  for (const auto& [word, count] : counts) {
    std::vector<std::int32_t> ids;
    for (const char c : word) ids.push_back(id_of(std::string(1, c)));
    sequences.emplace_back(ids, count);
  }
  Merges merges;
  while (static_cast<std::int64_t>(tokens.size()) < vocab_size) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> pairs;
    for (const auto& [ids, count] : sequences) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs[{ids[i], ids[i + 1]}] += count;
    }
    auto best = pairs.end();
    for (auto it = pairs.begin(); it != pairs.end(); ++it) {
      if (best == pairs.end() || it->second > best->second) best = it;
    }
    if (best == pairs.end() || best->second < min_frequency) break;
    const auto [left, right] = best->first;
    merges.emplace_back(tokens[static_cast<std::size_t>(left)], tokens[static_cast<std::size_t>(right)]);
    tokens.push_back(merges.back().first + merges.back().second);
    for (auto& [ids, count] : sequences) {
      std::vector<std::int32_t> merged;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool hit = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        merged.push_back(hit ? static_cast<std::int32_t>(tokens.size()) - 1 : ids[i]);
        if (hit) ++i;
      }
      ids = merged;
    }
  }
  return merges;
}

TEST(BpeTrainer, EqualsTheDefinitionOnWordsWithoutOverlaps) {
  // Letters never repeat side by side, so that a pair's count is what a recount gives, and tokens stay unambiguous.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::string> words;
    for (std::uint64_t w = 0; w < 40; ++w) {
      std::string word;
      const std::uint64_t length = 1 + bounded_at(seed, 0, w, 6);
      for (std::uint64_t i = 0; i < length; ++i) word += static_cast<char>('a' + 4 * i + bounded_at(seed, w + 1, i, 3));
      words.push_back(word);
    }
    const std::int64_t min_frequency = static_cast<std::int64_t>(seed % 4);
    EXPECT_EQ(merges_of(train(words, {.vocab_size = 290, .min_frequency = min_frequency})),
              train_plainly(words, 290, min_frequency))
        << seed;
  }
}

TEST(BpeTrainer, IdsAreSpecialTokensThenBytesThenMerges) {
  const Tokenizer tokenizer =
      train({"xyxyxy xy"}, {.vocab_size = 260, .special_tokens = {"<|endoftext|>", "<|im_start|>"}});
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer.id_of("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer.id_of("!"), 2);
  EXPECT_EQ(tokenizer.id_of("xy"), 258);
  EXPECT_EQ(tokenizer.eos_id(), 0);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode("<|im_start|>xy"), (Ids{1, 258}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 258}, true), "xy");
}

TEST(BpeTrainer, SpecialTokensInTheTextAreOrdinaryToIt) {
  const Tokenizer tokenizer = train({"<|endoftext|><|endoftext|><|endoftext|>"}, {.vocab_size = 400});
  EXPECT_NE(tokenizer.id_of("endoftext"), std::nullopt);
  EXPECT_EQ(tokenizer.encode("<|endoftext|>"), (Ids{0}));
}

TEST(BpeTrainer, StopsWhenNothingIsLeftToMerge) {
  EXPECT_EQ(train({"ab"}, {.vocab_size = 1000}).vocab_size(), 258);
  EXPECT_EQ(train({}, {.vocab_size = 1000}).vocab_size(), 257);
  EXPECT_EQ(train({"", ""}, {.vocab_size = 1000}).vocab_size(), 257);
  EXPECT_EQ(train({"ab ab cd"}, {.vocab_size = 1000, .min_frequency = 2}).vocab_size(), 258);
}

TEST(BpeTrainer, AnyBytesAreTrainedOnAndComeBack) {
  std::string document;
  for (std::uint64_t i = 0; i < 20000; ++i) document += static_cast<char>(bounded_at(1, 0, i, 256));
  const Tokenizer tokenizer = train({document}, {.vocab_size = 500});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(document)), document);
}

TEST(BpeTrainer, PatternsDecideTheWords) {
  const std::vector<std::string> numbers(10, "12345");
  const auto longest = [&](WordPattern pattern) {
    const Tokenizer tokenizer = train(numbers, {.vocab_size = 400, .pattern = pattern});
    std::size_t length = 0;
    for (std::int64_t id = 257; id < tokenizer.vocab_size(); ++id)
      length = std::max(length, tokenizer.token_of(id)->size());
    return length;
  };
  EXPECT_EQ(longest(WordPattern::kGpt2), 5u);
  EXPECT_EQ(longest(WordPattern::kLlama3), 3u);
  EXPECT_EQ(longest(WordPattern::kQwen2), 0u);
  // The Qwen kind also normalises: a decomposed letter is learned, and encoded, as the composed one.
  const Tokenizer qwen = train({"e\xCC\x81"}, {.vocab_size = 400, .pattern = WordPattern::kQwen2});
  EXPECT_EQ(qwen.encode("e\xCC\x81"), qwen.encode("\xC3\xA9"));
  EXPECT_EQ(qwen.vocab_size(), 258);
}

TEST(BpeTrainer, BadOptionsAreRefused) {
  expect_error(ExitCode::kUsage, "vocab_size is 256, expected 257", [] { train({}, {.vocab_size = 256}); });
  expect_error(ExitCode::kUsage, "vocab_size is 1073741824", [] { train({}, {.vocab_size = 1 << 30}); });
  expect_error(ExitCode::kUsage, "min_frequency is -1", [] { train({}, {.min_frequency = -1}); });
  expect_error(ExitCode::kUsage, "special token", [] { train({}, {.special_tokens = {"a"}}); });
  expect_error(ExitCode::kUsage, "special token", [] { train({}, {.special_tokens = {""}}); });
  expect_error(ExitCode::kUsage, "special token", [] { train({}, {.special_tokens = {"<x>", "<x>"}}); });
  expect_error(ExitCode::kUsage, "UTF-8", [] { train({}, {.special_tokens = {"\xFF"}}); });
}

TEST(BpeTrainer, ReportsProgressToTheEnd) {
  std::map<std::string, std::int64_t> last;
  BpeTrainerOptions options{.vocab_size = 300};
  options.progress = [&](std::string_view stage, std::int64_t done, std::int64_t total) {
    last[std::string(stage)] = done;
    EXPECT_LE(done, total);
  };
  train(kDocuments, options);
  EXPECT_EQ(last, (std::map<std::string, std::int64_t>{{"words", 3}, {"merges", 300}}));
}

}  // namespace
}  // namespace ida::text
