#include "text/split_behavior.h"

#include <algorithm>
#include <string>

namespace ida::text {
namespace {

// A delimiter joins the piece before it, unless that one ends with a delimiter already.
std::vector<SplitPart> merged_with_previous(const std::vector<SplitPart>& parts) {
  std::vector<SplitPart> result;
  bool after_match = false;
  for (const SplitPart& part : parts) {
    if (part.is_match && !after_match && !result.empty()) {
      result.back().end = part.end;
    } else {
      result.push_back(part);
    }
    after_match = part.is_match;
  }
  return result;
}

std::vector<SplitPart> merged_with_next(std::vector<SplitPart> parts) {
  std::reverse(parts.begin(), parts.end());
  std::vector<SplitPart> result;
  bool before_match = false;
  for (const SplitPart& part : parts) {
    if (part.is_match && !before_match && !result.empty()) {
      result.back().begin = part.begin;
    } else {
      result.push_back(part);
    }
    before_match = part.is_match;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::vector<SplitPart> contiguous(const std::vector<SplitPart>& parts) {
  std::vector<SplitPart> result;
  for (const SplitPart& part : parts) {
    if (!result.empty() && result.back().is_match == part.is_match) {
      result.back().end = part.end;
    } else {
      result.push_back(part);
    }
  }
  return result;
}

}  // namespace

SplitBehavior read_split_behavior(const JsonPart& json, std::optional<SplitBehavior> fallback) {
  if (fallback && json.find("behavior") == nullptr) return *fallback;
  const std::string name = json.string("behavior");
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  json.corrupt("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void join_parts(std::vector<SplitPart>& parts, SplitBehavior behavior) {
  if (behavior == SplitBehavior::kMergedWithPrevious) parts = merged_with_previous(parts);
  if (behavior == SplitBehavior::kMergedWithNext) parts = merged_with_next(std::move(parts));
  if (behavior == SplitBehavior::kContiguous) parts = contiguous(parts);
}

}  // namespace ida::text
