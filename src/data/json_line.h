// One record of a .jsonl corpus: the string under the top-level key "text".
#pragma once
#include <string>
#include <string_view>

namespace ida::data {

// Deepest nesting of objects and arrays that a record may have.
inline constexpr int kMaxJsonDepth = 64;

// Parses `line` (one JSON object, RFC 8259, UTF-8) and returns its "text". `where` ("file:line") starts every message.
// Errors: kCorrupt for malformed JSON, a "text" that is no string or appears twice, nesting above kMaxJsonDepth;
// kUsage for a record without "text", naming the other form it has (messages, prompt, instruction, ...).
std::string text_of_json_line(std::string_view line, std::string_view where);

}  // namespace ida::data
