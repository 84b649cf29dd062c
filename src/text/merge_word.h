// The merging of one word: repeatedly the adjacent pair of lowest rank, the leftmost of those, becomes one token.
#pragma once
#include <cstdint>
#include <vector>

#include "text/merge_table.h"

namespace ida::text {

// Merges `ids` in place. O(n^2) up to kShortWord symbols, O(n log n) beyond.
void merge_word(const MergeTable& merges, std::vector<std::int32_t>& ids);

constexpr std::size_t kShortWord = 48;

}  // namespace ida::text
