#include "config/toml_guard.h"

#include <algorithm>

namespace ida::config {
namespace {

constexpr int kMaxDots = 15;
constexpr std::string_view kBeforeString = " \t\r\n=.,[{";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// End of the string literal that starts at `begin`: one past its closing quotes, or the end of the text. The parser
// stops where a literal is broken, so what follows such a place does not matter.
std::size_t string_end(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
  const bool multi_line = text.substr(begin, 3) == triple;
  const std::size_t width = multi_line ? 3 : 1;
  for (std::size_t i = begin + width; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (!multi_line && (text[i] == quote || text[i] == '\n')) {
      return i + 1;
    } else if (multi_line && text.substr(i, 3) == triple) {
      i += 3;
      while (i < text.size() && text[i] == quote) ++i;  // up to two quotes may precede the closing three
      return i;
    }
  }
  return text.size();
}

std::int64_t line_at(std::string_view text, std::size_t place) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n');
}

}  // namespace

std::optional<GuardRefusal> toml_refusal(std::string_view toml_text) {
  const std::size_t begin = toml_text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::size_t i = begin;
  int dots = 0;
  while (i < toml_text.size()) {
    const char c = toml_text[i];
    // A quote within a word starts no string: to find a value's type the parser reads the word to its end, quotes or not.
    const bool after_word = i > begin && kBeforeString.find(toml_text[i - 1]) == std::string_view::npos;
    if ((c == '"' || c == '\'') && !after_word) {
      i = string_end(toml_text, i);
      continue;
    }
    if (c == '#') {
      i = std::min(toml_text.find('\n', i), toml_text.size());
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      return GuardRefusal{line_at(toml_text, i), "a character outside ASCII; expected it within quotes or a comment"};
    }
    if (c == '.') {
      if (++dots > kMaxDots) return GuardRefusal{line_at(toml_text, i), "a key has too many dots"};
    } else if (std::string_view("=,{}[]\n").find(c) != std::string_view::npos) {
      dots = 0;
    }
    ++i;
  }
  return {};
}

}  // namespace ida::config
