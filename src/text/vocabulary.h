// Tokens by id and by spelling, as a tokenizer.json writes them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ida::text {

// Hash that lets a map of std::string be searched with a std::string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

constexpr std::int32_t kNoToken = -1;
// Ids at or above are refused: they come from damaged files, and every id below the largest takes memory (about 80 bytes,
// whether it has a token or not). Four times the largest vocabulary in use.
constexpr std::int64_t kMaxTokenId = std::int64_t{1} << 20;

class Vocabulary {
 public:
  // Errors are kCorrupt and start with `where`: an id out of range, an id or a spelling given twice.
  void add(std::string_view token, std::int64_t id, std::string_view where);

  std::int32_t id_of(std::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? kNoToken : it->second;
  }
  bool has(std::int64_t id) const { return id >= 0 && id < size() && present_[static_cast<std::size_t>(id)]; }
  // The spelling of an id that has() accepts.
  const std::string& token_of(std::int64_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  // Largest id + 1.
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  StringMap<std::int32_t> ids_;
};

}  // namespace ida::text
