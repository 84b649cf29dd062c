#include "text/merge_word.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_map>

namespace ida::text {
namespace {

constexpr Merge kNoMerge{UINT32_MAX, -1};

Merge merge_of(const MergeTable& merges, std::int32_t left, std::int32_t right) {
  const Merge* found = merges.find(left, right);
  return found == nullptr ? kNoMerge : *found;
}

// Scans all pairs for each merge: the fastest way for words of ordinary length.
void merge_short(const MergeTable& merges, std::vector<std::int32_t>& ids) {
  std::array<Merge, kShortWord> pairs;  // pairs[i]: the merge of ids[i] and ids[i + 1]
  std::size_t n = ids.size();
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = merge_of(merges, ids[i], ids[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoMerge.rank) break;
    ids[best] = pairs[best].result;
    const auto gap = static_cast<std::ptrdiff_t>(best) + 1;
    std::copy(ids.begin() + gap + 1, ids.begin() + static_cast<std::ptrdiff_t>(n), ids.begin() + gap);
    if (best + 2 < n)
      std::copy(pairs.begin() + gap + 1, pairs.begin() + static_cast<std::ptrdiff_t>(n) - 1, pairs.begin() + gap);
    --n;
    if (best > 0) pairs[best - 1] = merge_of(merges, ids[best - 1], ids[best]);
    if (best + 1 < n) pairs[best] = merge_of(merges, ids[best], ids[best + 1]);
  }
  ids.resize(n);
}

// Long words: a linked list of symbols, and for each rank the positions where its pair was seen.
//
// The lowest rank with positions left is worked off from left to right. A merge may create pairs of a lower rank,
// which then go first; it never creates a pair of the rank at work or adds to it on the way down, because every
// token that descends from the merge spells more than the pair does. So a rank's positions are sorted once, when
// its turn comes, and the whole is O(n log n) for any table of merges.
class LongWord {
 public:
  LongWord(const MergeTable& merges, std::vector<std::int32_t>& ids) : merges_(merges), ids_(ids) {
    const std::size_t n = ids.size();
    prev_.resize(n);
    next_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      prev_[i] = static_cast<std::uint32_t>(i) - 1;  // 0 wraps to kEnd
      next_[i] = i + 1 < n ? static_cast<std::uint32_t>(i + 1) : kEnd;
    }
    for (std::uint32_t i = 0; i + 1 < n; ++i) note_pair(i);
  }

  void run() {
    while (!ranks_.empty()) {
      const std::uint32_t rank = ranks_.top();
      Positions& positions = buckets_[bucket_of_rank_[rank]];
      if (positions.cursor == positions.list.size()) {
        positions = {};
        ranks_.pop();
        continue;
      }
      if (!positions.sorted) {
        std::sort(positions.list.begin() + static_cast<std::ptrdiff_t>(positions.cursor), positions.list.end());
        positions.sorted = true;
      }
      while (positions.cursor < positions.list.size() && ranks_.top() == rank) {
        merge_at(positions.list[positions.cursor++], rank);
      }
    }
    std::erase(ids_, kDead);
  }

 private:
  static constexpr std::uint32_t kEnd = UINT32_MAX;
  static constexpr std::int32_t kDead = -1;

  struct Positions {
    std::vector<std::uint32_t> list;
    std::size_t cursor = 0;
    bool sorted = true;
    bool queued = false;
  };

  // Records the merge, if any, of the symbol at `at` with its successor.
  void note_pair(std::uint32_t at) {
    const Merge* merge = merges_.find(ids_[at], ids_[next_[at]]);
    if (merge == nullptr) return;
    const auto [it, is_new] = bucket_of_rank_.try_emplace(merge->rank, buckets_.size());
    if (is_new) buckets_.emplace_back();
    Positions& positions = buckets_[it->second];
    if (!positions.list.empty() && positions.list.back() > at) positions.sorted = false;
    positions.list.push_back(at);
    if (!positions.queued) {
      positions.queued = true;
      ranks_.push(merge->rank);
    }
  }

  void merge_at(std::uint32_t at, std::uint32_t rank) {
    if (ids_[at] == kDead || next_[at] == kEnd) return;
    const std::uint32_t right = next_[at];
    const Merge* merge = merges_.find(ids_[at], ids_[right]);
    if (merge == nullptr || merge->rank != rank) return;  // a neighbour has merged meanwhile
    ids_[at] = merge->result;
    ids_[right] = kDead;
    next_[at] = next_[right];
    if (next_[at] != kEnd) prev_[next_[at]] = at;
    if (prev_[at] != kEnd) note_pair(prev_[at]);
    if (next_[at] != kEnd) note_pair(at);
  }

  const MergeTable& merges_;
  std::vector<std::int32_t>& ids_;
  std::vector<std::uint32_t> prev_;
  std::vector<std::uint32_t> next_;
  std::deque<Positions> buckets_;  // references stay valid while buckets are added
  std::unordered_map<std::uint32_t, std::size_t> bucket_of_rank_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_;
};

}  // namespace

void merge_word(const MergeTable& merges, std::vector<std::int32_t>& ids) {
  if (ids.size() <= kShortWord) {
    merge_short(merges, ids);
  } else {
    LongWord(merges, ids).run();
  }
}

}  // namespace ida::text
