// What becomes of the delimiters at which text is cut.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "text/json_part.h"

namespace ida::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The key "behavior"; `fallback` when it is absent (none: absent is kCorrupt).
SplitBehavior read_split_behavior(const JsonPart& json, std::optional<SplitBehavior> fallback);

struct SplitPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};
// Joins parts in place as `behavior` says (not for kIsolated and kRemoved, which join nothing).
void join_parts(std::vector<SplitPart>& parts, SplitBehavior behavior);

// `enumerate(part)` calls part(begin, end, is_match) over a text in order; `sink(begin, end)` receives the pieces.
template <typename Enumerate, typename Sink>
void split_by(SplitBehavior behavior, Enumerate&& enumerate, Sink&& sink) {
  if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
    enumerate([&](std::size_t begin, std::size_t end, bool is_match) {
      if (!is_match || behavior == SplitBehavior::kIsolated) sink(begin, end);
    });
    return;
  }
  std::vector<SplitPart> parts;
  enumerate([&](std::size_t begin, std::size_t end, bool is_match) { parts.push_back({begin, end, is_match}); });
  join_parts(parts, behavior);
  for (const SplitPart& part : parts) sink(part.begin, part.end);
}

}  // namespace ida::text
