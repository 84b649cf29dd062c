// Where a word may be cut before its pairs are merged: between two symbols that no merge can ever bring into one token.
//
// A merge of L and R joins the last first-step symbol of L with the first one of R, so the pairs (last of L, first of R)
// over all merges are all that can join. The pieces between the other places merge independently: the result is that of
// the whole word, and the work per piece stays small where the word has no end.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace ida::text {

// A pair of token ids that merge; the result is the token that spells both.
struct MergeRule {
  std::int32_t left = 0;
  std::int32_t right = 0;
  Merge merge;
};

class JoinFilter {
 public:
  // Everything joins.
  JoinFilter() = default;
  // `symbols`: the ids that a word may consist of before the first merge.
  JoinFilter(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges, std::span<const std::int32_t> symbols);

  // Whether two neighbouring symbols may end up in one token. May say yes where the truth is no.
  bool may_join(std::int32_t left, std::int32_t right) const { return bits_.empty() || bits_[slot(left, right)]; }

 private:
  // Pairs share a table of 2^20 bits by a hash: a collision costs a cut, never a wrong one.
  static constexpr int kNumSlotsLog2 = 20;

  static std::size_t slot(std::int32_t left, std::int32_t right) {
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ULL >> (64 - kNumSlotsLog2));
  }

  std::vector<bool> bits_;  // empty: everything joins
};

}  // namespace ida::text
