#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace ida::runtime {
namespace {

alignas(256) std::byte memory[1024];

TEST(Arena, AlignsAndReleasesInScopes) {
  Arena arena(memory, sizeof(memory));
  void* a = arena.allocate_bytes(10, MemoryClass::kWeights, "a");
  {
    const Arena::Scope scope(arena);
    void* b = arena.allocate_bytes(65, MemoryClass::kWorkspace, "b");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 256, 0u);
    EXPECT_EQ(static_cast<std::byte*>(b) - static_cast<std::byte*>(a), 256);
    EXPECT_EQ(arena.used_bytes(), 512);
  }
  EXPECT_EQ(arena.used_bytes(), 256);
  EXPECT_EQ(arena.high_water_bytes(), 512);
}

TEST(Arena, OverflowIsAnErrorThatNamesTheBuffer) {
  Arena arena(memory, 512);
  arena.allocate_bytes(64, MemoryClass::kWeights, "a");
  try {
    arena.allocate_bytes(257, MemoryClass::kWeights, "too much");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too much"), std::string::npos);
  }
}

TEST(Arena, DryAndRealGiveTheSameLayout) {
  Arena dry;
  Arena real(memory, sizeof(memory));
  const auto layout = [](Arena& arena) {
    const Arena::Scope scope(arena);
    const TensorView a = arena.allocate(DType::kBF16, 3, 5, MemoryClass::kActivations, "a");
    const TensorView b = arena.allocate(DType::kF32, 1, 7, MemoryClass::kBatch, "b");
    return static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data);
  };
  EXPECT_EQ(layout(dry), layout(real));
  EXPECT_EQ(dry.high_water_bytes(), real.high_water_bytes());
  EXPECT_TRUE(dry.dry());
  EXPECT_FALSE(real.dry());
}

TEST(Arena, ClassesAreThoseOfThePeak) {
  Arena arena;
  arena.allocate_bytes(256, MemoryClass::kWeights, "w");
  {
    const Arena::Scope scope(arena);
    arena.allocate_bytes(1024, MemoryClass::kActivations, "big");
  }
  {
    const Arena::Scope scope(arena);
    arena.allocate_bytes(512, MemoryClass::kWorkspace, "later and smaller");
  }
  const BytesByClass& peak = arena.bytes_at_peak();
  EXPECT_EQ(peak[static_cast<std::size_t>(MemoryClass::kWeights)], 256);
  EXPECT_EQ(peak[static_cast<std::size_t>(MemoryClass::kActivations)], 1024);
  EXPECT_EQ(peak[static_cast<std::size_t>(MemoryClass::kWorkspace)], 0);
}

}  // namespace
}  // namespace ida::runtime
