#include "text/vocabulary.h"

#include "base/error.h"
#include "base/json.h"

namespace ida::text {

void Vocabulary::add(std::string_view token, std::int64_t id, std::string_view where) {
  if (id < 0 || id >= kMaxTokenId) {
    fail_corrupt("{}: token `{}` has id {}, expected 0 to {}", where, printable_excerpt(token), id, kMaxTokenId - 1);
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= tokens_.size()) {
    tokens_.resize(index + 1);
    present_.resize(index + 1);
  }
  if (present_[index]) {
    fail_corrupt("{}: id {} is given to both `{}` and `{}`", where, id, printable_excerpt(tokens_[index]),
                 printable_excerpt(token));
  }
  if (!ids_.emplace(token, static_cast<std::int32_t>(id)).second) {
    fail_corrupt("{}: token `{}` appears twice", where, printable_excerpt(token));
  }
  tokens_[index] = token;
  present_[index] = true;
}

}  // namespace ida::text
