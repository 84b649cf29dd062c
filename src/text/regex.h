// Regular expressions of tokenizer files on PCRE2 (UTF, Unicode properties, JIT).
//
// The files mean Oniguruma with Ruby syntax. What differs from PCRE2 is translated: `\s` is White_Space (PCRE2 adds
// U+180E), `\w` includes marks, `\h` is a hexadecimal digit, nested character classes are unions. Class
// intersections and nested negated classes are refused.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ida::text {

// The PCRE2 spelling of an Oniguruma pattern; errors are kUsage and start with `where`.
std::string translate_pattern(std::string_view pattern, std::string_view where);

class Regex {
 public:
  // `where` starts error messages (kUsage: a pattern PCRE2 does not accept).
  Regex(std::string_view pattern, std::string_view where);

  // First match at or after `from` in `subject`, which must be valid UTF-8. Returns false when there is none.
  // A pattern that exceeds the match limit on this subject is an error (kRuntime).
  bool find(std::string_view subject, std::size_t from, std::size_t& begin, std::size_t& end) const;

  // Calls visit(begin, end, is_match) for every match and every gap between matches, in order, covering `subject`
  // (valid UTF-8). Empty matches are visited too: they cut a gap in two.
  template <typename Visit>
  void for_each_part(std::string_view subject, Visit&& visit) const {
    std::size_t done = 0;
    std::size_t from = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
    while (from <= subject.size() && find(subject, from, begin, end)) {
      if (begin > done) visit(done, begin, false);
      visit(begin, end, true);
      done = end;
      from = end > begin ? end : next_char(subject, end);
    }
    if (done < subject.size()) visit(done, subject.size(), false);
  }

 private:
  static std::size_t next_char(std::string_view subject, std::size_t offset);

  std::string pattern_;
  std::shared_ptr<void> code_;  // pcre2_code, immutable once compiled: shared by copies and threads
};

}  // namespace ida::text
