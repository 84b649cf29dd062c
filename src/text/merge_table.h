// The merges of a BPE model: which pairs of tokens join, in what order, into which token.
#pragma once
#include <cstdint>
#include <vector>

namespace ida::text {

struct Merge {
  std::uint32_t rank = 0;  // lower merges first; no two pairs share one
  std::int32_t result = 0;
};

// Open addressing over pairs of ids; read-only while texts are encoded.
class MergeTable {
 public:
  void reserve(std::size_t num_merges);
  // A pair given again takes the later rank and result.
  void set(std::int32_t left, std::int32_t right, Merge merge);

  // nullptr when the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = home(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kEmpty) return nullptr;
    }
  }
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: ids are not negative

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t key) const { return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_); }
  void insert(std::uint64_t key, Merge merge);
  void grow(std::size_t capacity);

  std::vector<Slot> slots_;  // a power of two of them, at most half of them used
  std::size_t mask_ = 0;
  int shift_ = 64;
  std::size_t size_ = 0;
};

}  // namespace ida::text
