// The inner loop of BPE training: counted words as id sequences, the most frequent pair merged over and over.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace ida::text {

class PairMerger {
 public:
  struct Pair {
    std::int32_t left = 0;
    std::int32_t right = 0;
  };
  struct Best {
    Pair pair;
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where the pair was seen
  };

  void add_word(std::span<const std::int32_t> symbols, std::int64_t count);
  // After all words: counts their pairs.
  void count_pairs();
  // The pair of highest count, ties to the smaller pair; nothing when no pair is left. It is out of the queue then.
  std::optional<Best> pop();
  // Writes `result` for the pair in the words of `best`, and queues the pairs that this creates.
  void merge(const Best& best, std::int32_t result);

 private:
  struct Word {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::int64_t count = 0;
  };
  struct PairState {
    std::int64_t count = 0;
    std::vector<std::uint32_t> new_words;  // words that gained the pair since the queue was last fed, ascending
  };
  struct Entry {
    std::int64_t count = 0;
    std::uint64_t key = 0;
    std::vector<std::uint32_t> words;
    bool operator<(const Entry& other) const { return count != other.count ? count < other.count : key > other.key; }
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  void gain(std::int32_t left, std::int32_t right, std::uint32_t word);
  void lose(std::int32_t left, std::int32_t right, std::uint32_t word);
  void merge_in_word(std::uint32_t index, Pair pair, std::int32_t result);
  void enqueue(Entry entry);
  void feed_queue();

  std::vector<std::int32_t> symbols_;  // of all words, one after the other
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, PairState> pairs_;
  std::vector<std::uint64_t> gained_;  // pairs with new_words
  std::vector<Entry> queue_;           // a heap, the best in front
};

}  // namespace ida::text
