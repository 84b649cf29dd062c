// One planned allocation per device, used as a stack with names.
//
// The same code runs against a dry arena (addresses without memory) to plan and against a real one to train,
// so the planned size is the real size by construction. Allocations are 256-byte aligned and released in reverse
// order by Scope. Running over the capacity is our own bug, not the user's.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace ida::runtime {

// What memory is for; `plan` prints the peak of each class.
enum class MemoryClass : std::uint8_t { kWeights, kMasters, kGradients, kOptimizerState, kActivations, kWorkspace, kBatch };
inline constexpr int kNumMemoryClasses = 7;
using BytesByClass = std::array<std::int64_t, kNumMemoryClasses>;
std::string_view memory_class_name(MemoryClass memory_class);

class Arena {
 public:
  // A dry arena: hands out addresses that must not be dereferenced and measures the high-water mark.
  Arena();
  // A real arena of `capacity_bytes` at `base` (owned by the caller, 256-byte aligned).
  Arena(void* base, std::int64_t capacity_bytes);

  bool dry() const { return dry_; }
  void* allocate_bytes(std::int64_t size_bytes, MemoryClass memory_class, std::string_view name);
  TensorView allocate(DType dtype, std::int64_t rows, std::int64_t cols, MemoryClass memory_class, std::string_view name);

  std::int64_t used_bytes() const { return used_bytes_; }
  std::int64_t high_water_bytes() const { return high_water_bytes_; }
  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  // Bytes of each class at the moment of the high-water mark.
  const BytesByClass& bytes_at_peak() const { return at_peak_; }
  // Largest single allocation seen under each name.
  const std::map<std::string, std::int64_t>& largest_by_name() const { return by_name_; }

  // Releases on destruction everything allocated since construction.
  class Scope {
   public:
    explicit Scope(Arena& arena);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::int64_t mark_;
    BytesByClass in_use_{};
  };

 private:
  std::byte* base_ = nullptr;
  std::int64_t capacity_bytes_ = 0;
  bool dry_ = true;
  std::int64_t used_bytes_ = 0;
  std::int64_t high_water_bytes_ = 0;
  BytesByClass in_use_{};
  BytesByClass at_peak_{};
  std::map<std::string, std::int64_t> by_name_;
};

}  // namespace ida::runtime
