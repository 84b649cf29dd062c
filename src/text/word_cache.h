// What short words were encoded to, per thread: a direct-mapped table that forgets on collision.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ida::text {

class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 26;
  static constexpr std::size_t kMaxIds = 8;

  struct Entry {
    std::uint32_t owner = 0;  // the model that wrote it; 0: empty
    std::uint8_t num_bytes = 0;
    std::uint8_t num_ids = 0;
    std::array<char, kMaxBytes> bytes{};
    std::array<std::int32_t, kMaxIds> ids{};
  };

  static WordCache& of_this_thread() {
    thread_local WordCache cache;
    return cache;
  }

  // The entry where `word` (at most kMaxBytes) belongs.
  Entry& slot(std::string_view word) { return entries_[hash(word) & (kNumEntries - 1)]; }

  static bool holds(const Entry& entry, std::uint32_t owner, std::string_view word) {
    return entry.owner == owner && entry.num_bytes == word.size() &&
           std::memcmp(entry.bytes.data(), word.data(), word.size()) == 0;
  }

  static void store(Entry& entry, std::uint32_t owner, std::string_view word, std::span<const std::int32_t> ids) {
    entry.owner = owner;
    entry.num_bytes = static_cast<std::uint8_t>(word.size());
    entry.num_ids = static_cast<std::uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), entry.bytes.begin());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr std::size_t kNumEntries = 1 << 15;  // 2 MiB

  static std::size_t hash(std::string_view word) {
    std::uint64_t h = word.size();
    std::size_t i = 0;
    const auto mix = [&h](std::uint64_t value) {
      h = (h ^ value) * 0x9E3779B97F4A7C15ULL;
      h ^= h >> 29;
    };
    for (; i + 8 <= word.size(); i += 8) {
      std::uint64_t value;
      std::memcpy(&value, word.data() + i, 8);
      mix(value);
    }
    std::uint64_t tail = 0;
    std::memcpy(&tail, word.data() + i, word.size() - i);
    mix(tail);
    return static_cast<std::size_t>(h ^ (h >> 32));
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kNumEntries);
};

static_assert(sizeof(WordCache::Entry) == 64);

}  // namespace ida::text
