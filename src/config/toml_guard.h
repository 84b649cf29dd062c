// What is checked before text reaches the TOML parser.
#pragma once
#include <cstdint>
#include <string_view>

namespace ida::config {

// The line of the first dotted key or table header of more than 16 parts, or 0. The parser makes a nested table of every
// part and destroys them by recursion, so that one long line of dots would exhaust the stack.
std::int64_t line_of_deep_key(std::string_view toml_text);

}  // namespace ida::config
