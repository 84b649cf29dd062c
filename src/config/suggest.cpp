#include "config/suggest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "config/setting.h"

namespace ida::config {
namespace {

constexpr std::size_t kMaxWord = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c; }

std::string_view leaf_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Keys that may stand in `section`.
std::vector<std::string_view> keys_of(std::string_view section) {
  std::vector<std::string_view> keys;
  const auto add = [&](std::string_view path) {
    if (parent_of(path) == section) keys.push_back(leaf_of(path));
  };
  for (const Setting& setting : all_settings()) add(setting.path);
  for (const Section& known : all_sections()) add(known.name);
  for (const TableList& list : all_table_lists()) {
    add(list.path);
    if (section != list.path) continue;
    for (const Setting& field : list.fields) keys.push_back(field.path);
  }
  return keys;
}

// One bit for each letter of a word; letters may share a bit.
std::uint64_t letters_of(std::string_view word) {
  std::uint64_t letters = 0;
  for (const char c : word) letters |= std::uint64_t{1} << (static_cast<unsigned char>(lower(c)) % 64);
  return letters;
}

// An edit adds one byte at most, and replaces one letter at most.
int least_distance(std::string_view a, std::string_view b) {
  const auto [shorter, longer] = std::minmax({static_cast<int>(a.size()), static_cast<int>(b.size())});
  const std::uint64_t in_a = letters_of(a), in_b = letters_of(b);
  return std::max({longer - shorter, std::popcount(in_a & ~in_b), std::popcount(in_b & ~in_a)});
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kMaxWord || b.size() > kMaxWord) return static_cast<int>(std::max(a.size(), b.size()));
  std::array<std::array<int, kMaxWord + 1>, kMaxWord + 1> d;
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = lower(a[i - 1]), y = lower(b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (x == y ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y;
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    if (least_distance(word, candidate) >= best_distance) continue;
    const int distance = edit_distance(word, candidate);
    const int longest = static_cast<int>(std::max(word.size(), candidate.size()));
    if (distance >= best_distance || distance >= longest) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string suggest_path(std::string_view path) {
  const std::string_view section = parent_of(path);
  const std::string_view leaf = leaf_of(path);
  const std::vector<std::string_view> siblings = keys_of(section);
  if (const std::string_view key = nearest(leaf, siblings); !key.empty()) {
    return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
  }
  for (const Setting& setting : all_settings()) {
    if (leaf_of(setting.path) == leaf) return std::string(setting.path);
  }
  std::vector<std::string_view> paths;
  for (const Setting& setting : all_settings()) paths.push_back(setting.path);
  return std::string(nearest(path, paths));
}

std::string key_hint(std::string_view path) {
  const std::string suggestion = suggest_path(path);
  if (!suggestion.empty()) return did_you_mean(suggestion);
  const std::vector<std::string_view> keys = keys_of(parent_of(path));
  return keys.empty() ? "" : fmt::format("; known here: {}", fmt::join(keys, ", "));
}

std::string did_you_mean(std::string_view suggestion) {
  return suggestion.empty() ? "" : fmt::format("; did you mean {}?", suggestion);
}

}  // namespace ida::config
