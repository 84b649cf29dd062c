#include "base/error.h"
#include "base/json.h"
#include "text/regex.h"

namespace ida::text {
namespace {

constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kHexDigit = "0-9a-fA-F";

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (i_ < pattern_.size()) {
      if (pattern_[i_] == '\\') {
        escape(false);
      } else if (pattern_[i_] == '[') {
        character_class();
      } else {
        out_ += pattern_[i_++];
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail_usage("{}: regex `{}` uses {}, which is not supported", where_, printable_excerpt(pattern_), what);
  }

  // A set of characters by its members, or its complement; inside a class a complement cannot be spelled.
  void set(std::string_view members, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated set inside a character class");
    if (!in_class) out_ += negated ? "[^" : "[";
    out_ += members;
    if (!in_class) out_ += ']';
  }

  void escape(bool in_class) {
    if (i_ + 1 >= pattern_.size()) refuse("a backslash at its end");
    const char c = pattern_[i_ + 1];
    i_ += 2;
    switch (c) {
      case 's': return set(kSpace, false, in_class);
      case 'S':
        if (!in_class) return set(kSpace, true, false);
        out_ += "\\S";
        return;
      case 'w': return set(kWord, false, in_class);
      case 'W': return set(kWord, true, in_class);
      case 'h': return set(kHexDigit, false, in_class);
      case 'H': return set(kHexDigit, true, in_class);
      case 'u':
        if (i_ + 4 > pattern_.size()) refuse("an incomplete \\u escape");
        out_ += "\\x{";
        out_ += pattern_.substr(i_, 4);
        out_ += '}';
        i_ += 4;
        return;
      default: out_ += '\\', out_ += c;
    }
  }

  // A nested class that is not negated is a union: its brackets are dropped.
  void character_class() {
    out_ += pattern_[i_++];
    if (i_ < pattern_.size() && pattern_[i_] == '^') out_ += pattern_[i_++];
    if (i_ < pattern_.size() && pattern_[i_] == ']') {
      out_ += "\\]";
      ++i_;
    }
    int depth = 1;
    while (depth > 0) {
      if (i_ >= pattern_.size()) refuse("a character class without its end");
      const std::string_view rest = pattern_.substr(i_);
      if (rest[0] == '\\') {
        escape(true);
      } else if (rest.starts_with("[:")) {
        const std::size_t close = rest.find(":]");
        if (close == std::string_view::npos) refuse("a POSIX class without its end");
        out_ += rest.substr(0, close + 2);
        i_ += close + 2;
      } else if (rest[0] == '[') {
        if (rest.starts_with("[^")) refuse("a negated class inside a character class");
        ++depth;
        ++i_;
      } else if (rest[0] == ']') {
        --depth;
        ++i_;
      } else if (rest.starts_with("&&")) {
        refuse("a class intersection (&&)");
      } else {
        out_ += rest[0];
        ++i_;
      }
    }
    out_ += ']';
  }

  std::string_view pattern_;
  std::string_view where_;
  std::size_t i_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, std::string_view where) { return Translator(pattern, where).run(); }

}  // namespace ida::text
