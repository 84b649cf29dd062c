// The two pieces of JSON that the line logs need: numbers as short as they can be, and quoted strings.
#pragma once
#include <string>
#include <string_view>

namespace ida::metrics {

// A finite number: integers below 2^53 without point or exponent, others as the shortest text that reads back to the
// same double.
void append_json_number(std::string& out, double value);

// `text` quoted and escaped; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ida::metrics
