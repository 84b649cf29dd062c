// Strict JSON (RFC 8259) for files that others wrote: one document, valid UTF-8, no byte-order mark, no NUL, no
// duplicate key, nesting below kMaxJsonDepth.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ida {

constexpr int kMaxJsonDepth = 128;

// `origin` (a path) starts every error message; errors are kCorrupt.
nlohmann::json parse_json(std::string_view text, std::string_view origin);

// A short printable form of a value, for error messages.
std::string json_excerpt(const nlohmann::json& value);
// `text` with control and non-ASCII bytes escaped and its length bounded, for error messages.
std::string printable_excerpt(std::string_view text);
// The parser's own message without its error number, bounded in length.
std::string json_error_text(const char* what);

}  // namespace ida
