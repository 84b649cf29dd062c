#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace ida::text {
namespace {

// The character that ends at `end` > 0.
Utf8Char char_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const Utf8Char c = decode_utf8(text.substr(0, end), begin);
  if (c.valid && begin + c.length == end) return c;
  return {static_cast<unsigned char>(text[end - 1]), 1, false};
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    const Utf8Char c = char_before(text, begin);
    if (c.valid && is_word_char(c.code)) return true;
  }
  if (end < text.size()) {
    const Utf8Char c = decode_utf8(text, end);
    if (c.valid && is_word_char(c.code)) return true;
  }
  return false;
}

std::size_t blanks_begin(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    const Utf8Char c = char_before(text, end);
    if (!c.valid || !is_white_space(c.code)) break;
    end -= c.length;
  }
  return end;
}

std::size_t blanks_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const Utf8Char c = decode_utf8(text, begin);
    if (!c.valid || !is_white_space(c.code)) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace

std::uint32_t TokenTrie::child_of(std::uint32_t node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto it = std::lower_bound(children.begin(), children.end(), std::pair<unsigned char, std::uint32_t>{byte, 0});
  return it != children.end() && it->first == byte ? it->second : 0;
}

void TokenTrie::add(std::string_view content, std::size_t value) {
  if (content.empty()) return;
  starts_[static_cast<unsigned char>(content[0])] = true;
  std::uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t child = child_of(node, byte);
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      const std::pair<unsigned char, std::uint32_t> entry{byte, child};
      children.insert(std::upper_bound(children.begin(), children.end(), entry), entry);
    }
    node = child;
  }
  // Of two entries spelled alike the first is found.
  if (nodes_[node].value == kNone) nodes_[node].value = value;
}

std::size_t TokenTrie::longest_at(std::string_view text, std::size_t at, std::size_t& length) const {
  std::size_t best = kNone;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child_of(node, static_cast<unsigned char>(text[i]));
    if (node == 0) break;
    if (nodes_[node].value != kNone) {
      best = nodes_[node].value;
      length = i + 1 - at;
    }
  }
  return best;
}

std::size_t TokenTrie::next_start(std::string_view text, std::size_t from) const {
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer) : tokens_(std::move(tokens)) {
  // Special tokens are searched first: that decides between two that normalise to the same string.
  std::vector<std::size_t> order(tokens_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.end(), [this](std::size_t i) { return tokens_[i].special; });
  for (const std::size_t i : order) {
    const AddedToken& token = tokens_[i];
    if (token.normalized) {
      normalized_.add(normalizer.apply(token.content), i);
    } else {
      raw_.add(token.content, i);
    }
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= index_of_id_.size()) index_of_id_.resize(id + 1, -1);
    index_of_id_[id] = static_cast<std::int32_t>(i);
    ids_.emplace(token.content, token.id);
  }
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= index_of_id_.size()) return nullptr;
  const std::int32_t index = index_of_id_[static_cast<std::size_t>(id)];
  return index < 0 ? nullptr : &tokens_[static_cast<std::size_t>(index)];
}

void AddedTokens::split(const TokenTrie& trie, std::string_view text, Sink sink) const {
  std::size_t done = 0;
  if (!trie.empty()) {
    std::size_t at = trie.next_start(text, 0);
    while (at < text.size()) {
      std::size_t length = 0;
      const std::size_t found = trie.longest_at(text, at, length);
      if (found == TokenTrie::kNone) {
        at = trie.next_start(text, at + 1);
        continue;
      }
      const AddedToken& token = tokens_[found];
      std::size_t begin = at;
      std::size_t end = at + length;
      at = trie.next_start(text, end);
      if (token.single_word && touches_word(text, begin, end)) continue;
      if (token.lstrip) begin = std::max(blanks_begin(text, begin, std::min(begin, done)), done);
      if (token.rstrip) end = blanks_end(text, end);
      if (done < begin) sink(text.substr(done, begin - done), nullptr);
      sink({}, &token);
      done = end;
    }
  }
  if (done < text.size()) sink(text.substr(done), nullptr);
}

}  // namespace ida::text
