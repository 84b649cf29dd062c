// "Did you mean" for misspelt words.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace ida::config {

// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
// alignment); words longer than 64 bytes count as far apart.
int edit_distance(std::string_view a, std::string_view b);

// The closest candidate, or "" where none is near: at most 2 edits or a third of the word.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// The full path of the setting, section or table list that `path` was likely meant to be, or "".
std::string suggest_path(std::string_view path);

// What to say after "unknown key `path`": the suggestion, or where there is none the keys that its section has.
std::string key_hint(std::string_view path);

// "; did you mean X?", or "" where there is no suggestion.
std::string did_you_mean(std::string_view suggestion);

}  // namespace ida::config
