#include "text/pattern.h"

namespace ida::text {

Pattern::Pattern(const JsonPart& owner) {
  const JsonPart pattern = owner.part("pattern");
  pattern.allow_keys({"String", "Regex"});
  if (pattern.find("Regex") != nullptr) {
    regex_.emplace(pattern.string("Regex"), pattern.where());
  } else {
    literal_ = pattern.string("String");
    if (literal_.empty()) pattern.corrupt("String", "a string that is not empty");
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content) const {
  std::string out;
  out.reserve(text.size());
  for_each_part(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    out += is_match ? content : text.substr(begin, end - begin);
  });
  return out;
}

}  // namespace ida::text
