// What is checked before text reaches the TOML parser.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace ida::config {

struct GuardRefusal {
  std::int64_t line = 0;
  std::string_view text;
};

// The first place that the parser must not see:
// - a dotted key or table header of more than 16 parts: it makes a nested table of every part and destroys them by
//   recursion, so that one long line of dots would exhaust the stack;
// - a byte outside ASCII in neither a string nor a comment (TOML 1.0 has none there): its tables of letters have
//   undefined behaviour for some. A byte order mark at the start is allowed;
// - such a byte as the first after a backslash in a string (no escape of TOML), or after a folded line (a backslash at
//   the end of a line), for the same reason.
std::optional<GuardRefusal> toml_refusal(std::string_view toml_text);

}  // namespace ida::config
