#include "text/join_filter.h"

#include <algorithm>

namespace ida::text {
namespace {

// The symbols that a token starts and ends with.
struct Ends {
  std::int32_t first = kNoToken;
  std::int32_t last = kNoToken;
  bool operator==(const Ends&) const = default;
};

}  // namespace

JoinFilter::JoinFilter(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges,
                       std::span<const std::int32_t> symbols) {
  std::vector<Ends> ends(static_cast<std::size_t>(vocabulary.size()));
  const auto ends_of = [&](std::int32_t id) -> Ends& { return ends[static_cast<std::size_t>(id)]; };
  for (const std::int32_t id : symbols) ends_of(id) = {id, id};
  // Shorter results first: the parts of a merge are shorter than its result, so they are settled before it.
  std::vector<const MergeRule*> order;
  for (const MergeRule& rule : merges) order.push_back(&rule);
  std::stable_sort(order.begin(), order.end(), [&](const MergeRule* a, const MergeRule* b) {
    return vocabulary.token_of(a->merge.result).size() < vocabulary.token_of(b->merge.result).size();
  });
  std::vector<bool> bits(std::size_t{1} << kNumSlotsLog2);
  for (const MergeRule* rule : order) {
    const Ends left = ends_of(rule->left);
    const Ends right = ends_of(rule->right);
    if (left.last == kNoToken || right.first == kNoToken) continue;  // no word holds such a token
    bits[slot(left.last, right.first)] = true;
    const Ends both{left.first, right.last};
    Ends& result = ends_of(rule->merge.result);
    if (result == Ends{}) result = both;
    if (result != both) return;  // a token with two readings: nothing is cut
  }
  bits_ = std::move(bits);
}

}  // namespace ida::text
