#include "text/merge_table.h"

#include <bit>
#include <utility>

namespace ida::text {

void MergeTable::grow(std::size_t capacity) {
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(capacity));
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  size_ = 0;
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) insert(slot.key, slot.merge);
  }
}

void MergeTable::reserve(std::size_t num_merges) {
  const std::size_t capacity = std::bit_ceil(2 * num_merges + 2);
  if (capacity > slots_.size()) grow(capacity);
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  reserve(size_ + 1);
  insert(key_of(left, right), merge);
}

void MergeTable::insert(std::uint64_t key, Merge merge) {
  std::size_t i = home(key);
  while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++size_;
  slots_[i] = {key, merge};
}

}  // namespace ida::text
