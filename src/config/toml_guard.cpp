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

bool outside_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

// The first letter outside ASCII of text[begin, end) that follows a backslash, or a backslash at a line's end and the
// blanks after it; or npos. The parser asks its tables whether such a letter is one more blank.
std::size_t letter_after_backslash(std::string_view text, std::size_t begin, std::size_t end) {
  for (std::size_t i = text.find('\\', begin); i < end; i = text.find('\\', i + 2)) {
    const std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (next < end && outside_ascii(text[next])) return next;
  }
  return std::string_view::npos;
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
      const std::size_t end = string_end(toml_text, i);
      const std::size_t letter = c == '"' ? letter_after_backslash(toml_text, i, end) : std::string_view::npos;
      if (letter != std::string_view::npos)
        return GuardRefusal{line_at(toml_text, letter),
                            "a character outside ASCII after a backslash or a folded line; write it as \\uXXXX"};
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(toml_text.find('\n', i), toml_text.size());
      continue;
    }
    if (outside_ascii(c)) {
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
