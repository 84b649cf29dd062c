// What a Split or Replace of a tokenizer.json looks for: {"String": ...} taken literally, or {"Regex": ...}.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/json_part.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace ida::text {

class Pattern {
 public:
  // Reads the value under `pattern`.
  explicit Pattern(const JsonPart& owner);

  // Calls visit(begin, end, is_match) for matches and gaps in order, covering `text`. Invalid bytes never match a
  // regex: they are gaps of their own.
  template <typename Visit>
  void for_each_part(std::string_view text, Visit&& visit) const {
    if (regex_) {
      std::size_t run_begin = 0;
      for_each_utf8_run(text, [&](std::string_view run, bool valid) {
        if (valid) {
          regex_->for_each_part(run, [&](std::size_t begin, std::size_t end, bool is_match) {
            visit(run_begin + begin, run_begin + end, is_match);
          });
        } else {
          visit(run_begin, run_begin + run.size(), false);
        }
        run_begin += run.size();
      });
      return;
    }
    std::size_t done = 0;
    for (std::size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, done)) {
      if (at > done) visit(done, at, false);
      done = at + literal_.size();
      visit(at, done, true);
    }
    if (done < text.size()) visit(done, text.size(), false);
  }

  std::string replace_all(std::string_view text, std::string_view content) const;

 private:
  std::string literal_;  // never empty when there is no regex
  std::optional<Regex> regex_;
};

}  // namespace ida::text
