#include "text/pair_merger.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ida::text {

void PairMerger::add_word(std::span<const std::int32_t> symbols, std::int64_t count) {
  if (symbols_.size() + symbols.size() > UINT32_MAX) {
    fail_usage("tokenizer training: the distinct words of the corpus have more than 2^32 bytes; train on a part of it");
  }
  words_.push_back({static_cast<std::uint32_t>(symbols_.size()), static_cast<std::uint32_t>(symbols.size()), count});
  symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
}

void PairMerger::gain(std::int32_t left, std::int32_t right, std::uint32_t word) {
  const std::uint64_t key = key_of(left, right);
  PairState& state = pairs_[key];
  state.count += words_[word].count;
  if (state.new_words.empty()) gained_.push_back(key);
  if (state.new_words.empty() || state.new_words.back() != word) state.new_words.push_back(word);
}

void PairMerger::lose(std::int32_t left, std::int32_t right, std::uint32_t word) {
  pairs_[key_of(left, right)].count -= words_[word].count;
}

void PairMerger::count_pairs() {
  for (std::uint32_t w = 0; w < words_.size(); ++w) {
    const std::int32_t* symbols = symbols_.data() + words_[w].begin;
    for (std::uint32_t i = 0; i + 1 < words_[w].length; ++i) gain(symbols[i], symbols[i + 1], w);
  }
  feed_queue();
}

void PairMerger::enqueue(Entry entry) {
  queue_.push_back(std::move(entry));
  std::push_heap(queue_.begin(), queue_.end());
}

void PairMerger::feed_queue() {
  for (const std::uint64_t key : gained_) {
    PairState& state = pairs_[key];
    std::vector<std::uint32_t> words = std::exchange(state.new_words, {});
    if (state.count > 0) enqueue({state.count, key, std::move(words)});
  }
  gained_.clear();
}

std::optional<PairMerger::Best> PairMerger::pop() {
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    Entry entry = std::move(queue_.back());
    queue_.pop_back();
    const std::int64_t count = pairs_[entry.key].count;
    if (entry.count == count) {
      const Pair pair{static_cast<std::int32_t>(entry.key >> 32), static_cast<std::int32_t>(entry.key & UINT32_MAX)};
      return Best{pair, count, std::move(entry.words)};
    }
    entry.count = count;  // it fell behind since it was queued
    if (count > 0) enqueue(std::move(entry));
  }
  return std::nullopt;
}

void PairMerger::merge(const Best& best, std::int32_t result) {
  for (const std::uint32_t word : best.words) merge_in_word(word, best.pair, result);
  feed_queue();
}

void PairMerger::merge_in_word(std::uint32_t index, Pair pair, std::int32_t result) {
  Word& word = words_[index];
  std::int32_t* symbols = symbols_.data() + word.begin;
  std::uint32_t out = 0;
  for (std::uint32_t in = 0; in < word.length; ++out) {
    if (in + 1 >= word.length || symbols[in] != pair.left || symbols[in + 1] != pair.right) {
      symbols[out] = symbols[in++];
      continue;
    }
    if (out > 0) {
      lose(symbols[out - 1], pair.left, index);
      gain(symbols[out - 1], result, index);
    }
    in += 2;
    if (in < word.length) {
      lose(pair.right, symbols[in], index);
      gain(result, symbols[in], index);
    }
    symbols[out] = result;
  }
  word.length = out;
}

}  // namespace ida::text
