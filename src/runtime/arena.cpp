#include "runtime/arena.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace ida::runtime {
namespace {

constexpr std::int64_t kAlignmentBytes = 256;  // cuBLASLt refuses workspaces that are less aligned
constexpr std::int64_t align_up(std::int64_t value) {
  return (value + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

}  // namespace

std::string_view memory_class_name(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kWeights: return "weights";
    case MemoryClass::kMasters: return "masters";
    case MemoryClass::kGradients: return "gradients";
    case MemoryClass::kOptimizerState: return "optimizer_state";
    case MemoryClass::kActivations: return "activations";
    case MemoryClass::kWorkspace: return "workspace";
    case MemoryClass::kBatch: return "batch";
  }
  return "?";
}

// A dry arena starts at an address that is aligned and never mapped, so that views can be compared but not read.
Arena::Arena() : base_(reinterpret_cast<std::byte*>(std::uintptr_t{kAlignmentBytes})) {}

Arena::Arena(void* base, std::int64_t capacity_bytes)
    : base_(static_cast<std::byte*>(base)), capacity_bytes_(capacity_bytes), dry_(false) {}

void* Arena::allocate_bytes(std::int64_t size_bytes, MemoryClass memory_class, std::string_view name) {
  assert(size_bytes >= 0);
  const std::int64_t padded = align_up(size_bytes);
  if (!dry_ && used_bytes_ + padded > capacity_bytes_)
    fail_runtime("[arena] '{}' needs {} bytes but {} of {} are in use: the plan and the step disagree (please report this)",
                 name, padded, used_bytes_, capacity_bytes_);
  void* memory = base_ + used_bytes_;
  used_bytes_ += padded;
  in_use_[static_cast<std::size_t>(memory_class)] += padded;
  if (used_bytes_ > high_water_bytes_) {
    high_water_bytes_ = used_bytes_;
    at_peak_ = in_use_;
  }
  if (dry_) {
    std::int64_t& largest = by_name_[std::string(name)];
    largest = std::max(largest, padded);
  }
  return memory;
}

TensorView Arena::allocate(DType dtype, std::int64_t rows, std::int64_t cols, MemoryClass memory_class,
                           std::string_view name) {
  return matrix_view(allocate_bytes(rows * cols * dtype_size_bytes(dtype), memory_class, name), dtype, rows, cols);
}

Arena::Scope::Scope(Arena& arena) : arena_(arena), mark_(arena.used_bytes_), in_use_(arena.in_use_) {}
Arena::Scope::~Scope() {
  arena_.used_bytes_ = mark_;
  arena_.in_use_ = in_use_;
}

}  // namespace ida::runtime
