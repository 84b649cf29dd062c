// The few pieces of HTML that the report is made of. Tags are balanced and void ones closed, so the page is also
// well-formed XML.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ida::report {

// Text for element content and attribute values: markup characters escaped, control characters and bytes that are not
// UTF-8 replaced by U+FFFD.
std::string escape(std::string_view text);

// "1,234,567".
std::string with_separators(std::int64_t value);

// Both escape every cell.
std::string key_value_table(const std::vector<std::pair<std::string, std::string>>& rows);
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// The style sheet, light and dark.
std::string_view style_sheet();

}  // namespace ida::report
