#include "text/merge_word.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"

namespace ida::text {
namespace {

// The definition: the lowest rank, the leftmost of those, until nothing merges.
std::vector<std::int32_t> merge_plainly(const MergeTable& merges, std::vector<std::int32_t> ids) {
  while (true) {
    std::optional<std::size_t> best;
    std::uint32_t best_rank = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge* merge = merges.find(ids[i], ids[i + 1]);
      if (merge != nullptr && (!best || merge->rank < best_rank)) {
        best = i;
        best_rank = merge->rank;
      }
    }
    if (!best) return ids;
    ids[*best] = merges.find(ids[*best], ids[*best + 1])->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
}

// Random merges over `num_letters` letters, as a vocabulary would have them: the result is the token that spells
// both, so two pairs may give the same token. Ranks are shuffled: a merge may come before those it is made of.
MergeTable random_merges(std::uint64_t seed, std::int32_t num_letters, std::uint64_t num_merges) {
  MergeTable merges;
  std::vector<std::string> tokens;
  for (std::int32_t i = 0; i < num_letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
  for (std::uint64_t i = 0; i < num_merges; ++i) {
    const auto pick = [&](std::uint64_t stream) {
      return bounded_at(seed, stream, i, std::min<std::uint64_t>(tokens.size(), 8));
    };
    const std::uint64_t left = pick(0);
    const std::uint64_t right = pick(1);
    const std::string spelled = tokens[left] + tokens[right];
    const auto known = std::find(tokens.begin(), tokens.end(), spelled);
    const auto result = static_cast<std::int32_t>(known - tokens.begin());
    if (known == tokens.end()) tokens.push_back(spelled);
    const auto rank = static_cast<std::uint32_t>(bounded_at(seed, 2, i, 1000000));
    merges.set(static_cast<std::int32_t>(left), static_cast<std::int32_t>(right), {rank, result});
  }
  return merges;
}

TEST(MergeWord, EqualsTheDefinitionForAnyTableAndLength) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const auto num_letters = static_cast<std::int32_t>(1 + seed % 3);
    const MergeTable merges = random_merges(seed, num_letters, 10);
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7}, kShortWord - 1,
                                     kShortWord, kShortWord + 1, std::size_t{200}}) {
      std::vector<std::int32_t> ids(length);
      for (std::size_t i = 0; i < length; ++i) {
        ids[i] = static_cast<std::int32_t>(bounded_at(seed, 3, i, static_cast<std::uint64_t>(num_letters)));
      }
      const std::vector<std::int32_t> expected = merge_plainly(merges, ids);
      merge_word(merges, ids);
      ASSERT_EQ(ids, expected) << "seed " << seed << " length " << length;
    }
  }
}

TEST(MergeWord, TiesGoLeft) {
  MergeTable merges;
  merges.set(0, 0, {0, 1});
  std::vector<std::int32_t> odd(101, 0);
  merge_word(merges, odd);
  EXPECT_EQ(odd.size(), 51u);
  EXPECT_EQ(odd.front(), 1);
  EXPECT_EQ(odd.back(), 0);
}

TEST(MergeWord, ALowerRankThatAMergeCreatesGoesFirst) {
  MergeTable merges;  // a=0 b=1 c=2: ab has the higher rank, yet only ab makes abc possible, which then goes first
  merges.set(0, 1, {5, 3});
  merges.set(3, 2, {1, 4});
  merges.set(2, 0, {7, 5});
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.insert(ids.end(), {0, 1, 2});
  merge_word(merges, ids);
  EXPECT_EQ(ids, std::vector<std::int32_t>(40, 4));
}

TEST(MergeWord, AMillionSymbolsTakeNoQuadraticTime) {
  MergeTable merges;
  for (std::int32_t i = 0; i < 20; ++i) merges.set(i, i, {static_cast<std::uint32_t>(i), i + 1});
  std::vector<std::int32_t> ids(1 << 20, 0);
  merge_word(merges, ids);
  EXPECT_EQ(ids, std::vector<std::int32_t>{20});
}

TEST(MergeTable, GrowsAndKeepsTheLaterOfTwo) {
  MergeTable merges;
  EXPECT_EQ(merges.find(0, 0), nullptr);
  for (std::int32_t i = 0; i < 5000; ++i) merges.set(i, i * 7, {static_cast<std::uint32_t>(i), i});
  merges.set(3, 21, {9999, 1});
  EXPECT_EQ(merges.size(), 5000u);
  EXPECT_EQ(merges.find(3, 21)->rank, 9999u);
  for (std::int32_t i = 4; i < 5000; ++i) ASSERT_EQ(merges.find(i, i * 7)->result, i);
  EXPECT_EQ(merges.find(4, 21), nullptr);
}

}  // namespace
}  // namespace ida::text
