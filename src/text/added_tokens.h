// Added tokens: strings that are one token wherever they are written, cut out of the text before the model sees it.
//
// Those with normalized = false are looked for in the text as it is, the others, normalised themselves, in the
// normalised text between them. The leftmost match wins, the longest of those. Order of work and edge cases are those
// of the `tokenizers` package, including that a match may start inside the blanks that an earlier one stripped.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/function_ref.h"
#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace ida::text {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the blanks before it
  bool rstrip = false;       // takes the blanks after it
  bool normalized = false;   // looked for in normalised text
  bool special = false;      // left out when decoding without special tokens
};

// Leftmost-longest search for a set of byte strings.
class TokenTrie {
 public:
  void add(std::string_view content, std::size_t value);
  // The longest entry that starts at `at`: its value and, in `length`, its size. Nothing found: kNone.
  std::size_t longest_at(std::string_view text, std::size_t at, std::size_t& length) const;
  // First offset from `from` where an entry may start; text.size() when there is none.
  std::size_t next_start(std::string_view text, std::size_t from) const;
  bool empty() const { return nodes_.size() <= 1; }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // sorted by byte
    std::size_t value = kNone;
  };
  std::uint32_t child_of(std::uint32_t node, unsigned char byte) const;  // 0: none

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> starts_ = std::vector<bool>(256);
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::int32_t id) const;
  std::int32_t id_of(std::string_view content) const {
    const auto it = ids_.find(content);
    return it == ids_.end() ? kNoToken : it->second;
  }

  // Receives a stretch of text (token == nullptr) or an added token.
  using Sink = FunctionRef<void(std::string_view text, const AddedToken* token)>;
  void split_raw(std::string_view text, Sink sink) const { split(raw_, text, sink); }
  void split_normalized(std::string_view text, Sink sink) const { split(normalized_, text, sink); }

 private:
  void split(const TokenTrie& trie, std::string_view text, Sink sink) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::int32_t> index_of_id_;  // by id; -1: not an added token
  StringMap<std::int32_t> ids_;
  TokenTrie raw_;
  TokenTrie normalized_;
};

}  // namespace ida::text
