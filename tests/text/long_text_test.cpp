// Texts without an end of a word: exact ids, exact round trip, work in proportion to the length.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "text/bpe_trainer.h"
#include "text/join_filter.h"
#include "text/support.h"

namespace ida::text {
namespace {

// The definition of BPE: the pair of lowest rank, the leftmost of those, until nothing merges.
std::vector<std::string> merge_plainly(const std::vector<std::pair<std::string, std::string>>& merges,
                                       std::vector<std::string> symbols) {
  for (;;) {
    std::size_t best_rank = merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = std::find(merges.begin(), merges.end(), std::pair(symbols[i], symbols[i + 1]));
      const auto rank = static_cast<std::size_t>(found - merges.begin());
      if (rank < best_rank) best_rank = rank, best = i;
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(LongText, CuttingAWordBeforeItsMergesChangesNoId) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int num_letters = 2 + round % 5;
    std::vector<std::string> tokens;
    for (int i = 0; i < num_letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 6; ++i) {
      const std::pair<std::string, std::string> pair(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
      if (std::find(merges.begin(), merges.end(), pair) != merges.end()) continue;
      merges.push_back(pair);
      const std::string spelled = pair.first + pair.second;
      if (std::find(tokens.begin(), tokens.end(), spelled) == tokens.end()) tokens.push_back(spelled);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    std::vector<std::string> lines;
    for (const auto& [left, right] : merges) lines.push_back(left + " " + right);
    std::string text;
    std::vector<std::string> symbols;
    for (int i = 0; i < 120; ++i)
      symbols.emplace_back(1, static_cast<char>('a' + random() % static_cast<unsigned>(num_letters)));
    for (const std::string& symbol : symbols) text += symbol;
    ASSERT_EQ(tokens_of(make_tokenizer(bpe_json(tokens, lines)), text), merge_plainly(merges, symbols))
        << "round " << round;
  }
}

TEST(LongText, OnlyPairsThatAMergeBringsTogetherJoin) {
  Vocabulary vocabulary;
  for (const char* token : {"a", "b", "c", "ab", "abc"}) vocabulary.add(token, vocabulary.size(), "test");
  const std::vector<MergeRule> merges = {{0, 1, {0, 3}}, {3, 2, {1, 4}}};
  const JoinFilter filter(vocabulary, merges, std::vector<std::int32_t>{0, 1, 2});
  EXPECT_TRUE(filter.may_join(0, 1));
  EXPECT_TRUE(filter.may_join(1, 2));
  EXPECT_FALSE(filter.may_join(0, 2));
  EXPECT_FALSE(filter.may_join(2, 0));
  EXPECT_FALSE(filter.may_join(1, 1));
}

const Tokenizer& byte_level() {
  static const Tokenizer tokenizer = [] {
    const std::vector<std::string_view> corpus = {"the aaaa of  bbbb zzz qux and then aa    aaaaaaaa thethe"};
    BpeTrainerOptions options;
    options.vocab_size = 290;
    return train_byte_level_bpe(corpus, options);
  }();
  return tokenizer;
}

using MakeText = std::function<std::string(std::size_t)>;

const std::map<std::string, MakeText>& kinds() {
  const auto random_text = [](std::size_t size, unsigned first, unsigned count) {
    std::mt19937 random(3);
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(first + random() % count);
    return text;
  };
  static const std::map<std::string, MakeText> all = {
      {"letters", [=](std::size_t size) { return random_text(size, 'a', 26); }},
      {"any bytes", [=](std::size_t size) { return random_text(size, 0, 256); }},
      {"one character", [](std::size_t size) { return std::string(size, 'a'); }},
      {"blanks", [](std::size_t size) { return std::string(size, ' '); }},
      {"lines", [](std::size_t size) { return std::string(size, '\n'); }},
      {"one invalid byte", [](std::size_t size) { return std::string(size, '\xFF'); }},
      {"half a character", [](std::size_t size) { return std::string(size, '\xE2'); }},
  };
  return all;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double encode_seconds(const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = thread_seconds();
    byte_level().encode(text);
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

TEST(LongText, EveryByteComesBack) {
  for (const auto& [name, make] : kinds()) {
    const std::string text = make(1 << 18);
    EXPECT_TRUE(byte_level().decode(byte_level().encode(text)) == text) << name;
  }
}

// Sixteen times the text takes 256 times as long where work is quadratic, and about sixteen times where it is linear.
// The processor time of the thread does not count what else the machine does.
TEST(LongText, TimeIsLinear) {
  for (const auto& [name, make] : kinds()) {
    const double small = encode_seconds(make(1 << 16));
    const double large = encode_seconds(make(1 << 20));
    EXPECT_LT(large, 64 * small + 0.01) << name << ": " << small << " s and " << large << " s";
  }
}

}  // namespace
}  // namespace ida::text
