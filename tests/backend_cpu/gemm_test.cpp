// Every engine of matrix products against the definition, and the promises of ops/gemm.h: bits depend neither on the
// thread count, nor on m, nor on a row's position.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "backend/cpu/gemm_blocked.h"
#include "backend/cpu/gemm_definition.h"
#include "backend/cpu/isa.h"
#include "backend_cpu/gemm_cases.h"
#include "base/parallel.h"

namespace ida::cpu::test {
namespace {

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(0); }
};

struct Case {
  Engine engine;
  bool bf16;
};
void PrintTo(const Case& value, std::ostream* out) { *out << value.engine.name; }

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const bool bf16 : {false, true}) {
    for (const Engine& engine : engines(bf16)) list.push_back({engine, bf16});
  }
  return list;
}

class GemmEngine : public testing::TestWithParam<Case> {};

// m below, at and above the narrow path's limit, a tile and a panel; n and k off every block size; k over a chunk.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
const Shape kShapes[] = {{1, 1, 1},   {1, 300, 70},  {7, 13, 5},     {48, 64, 256},  {49, 65, 257},
                         {65, 33, 9}, {97, 300, 40}, {100, 70, 600}, {130, 19, 513}, {3, 70, 1000}};

// Sums of small integers are exact in f32 in any order, so the bits must be those of the definition.
TEST_P(GemmEngine, IntegersGiveTheBitsOfTheDefinition) {
  for (const auto& [m, n, k] : kShapes) {
    for (const ops::GemmDesc& desc : all_forms(m, n, k, GetParam().bf16)) {
      Problem problem(desc, Values::kSmallIntegers, desc.a_transposed ? 1.0f : -0.5f);
      const Problem expected = definition_of(problem);
      run(GetParam().engine, problem);
      ASSERT_EQ(count_different_bits(problem.c, expected.c), 0) << desc.to_string() << " alpha " << problem.alpha;
    }
  }
}

TEST_P(GemmEngine, ErrorStaysInsideTheBoundOfSummation) {
  for (const auto& [m, n, k] : kShapes) {
    for (const ops::GemmDesc& desc : all_forms(m, n, k, GetParam().bf16)) {
      Problem problem(desc, Values::kUniform, 0.75f);
      const Problem expected = definition_of(problem);
      run(GetParam().engine, problem);
      ASSERT_LE(worst_error_over_bound(problem, expected), 1.0) << desc.to_string();
    }
  }
}

TEST_P(GemmEngine, ThreadCountDoesNotChangeBits) {
  for (const auto& [m, n, k] : {Shape{144, 384, 8192}, Shape{300, 700, 300}, Shape{5, 900, 700}}) {
    for (const bool transposed : {false, true}) {
      ops::GemmDesc desc = all_forms(m, n, k, GetParam().bf16).front();
      desc.a_transposed = transposed;
      desc.b_transposed = !transposed;
      Problem one(desc, Values::kUniform);
      {
        const Threads threads(1);
        run(GetParam().engine, one);
      }
      for (const int count : {2, 3, 5}) {
        Problem more(desc, Values::kUniform);
        const Threads threads(count);
        run(GetParam().engine, more);
        ASSERT_EQ(count_different_bits(one.c, more.c), 0) << desc.to_string() << " threads " << count;
      }
    }
  }
}

// Rows [first, first + count) of the m = 300 product as a product of their own.
TEST_P(GemmEngine, RowBitsDependNeitherOnMNorOnPosition) {
  constexpr std::int64_t kRows = 300;
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{257, 600}, {64, 90}, {30, 1100}}) {
    for (const ops::GemmDesc& desc : all_forms(kRows, n, k, GetParam().bf16)) {
      if (desc.accumulate || desc.has_bias || desc.has_residual || desc.c_dtype != DType::kF32) continue;
      Problem whole(desc, Values::kUniform);
      run(GetParam().engine, whole);
      for (const auto& [first, count] :
           {std::pair<std::int64_t, std::int64_t>{299, 1}, {5, 7}, {17, 48}, {100, 64}, {3, 131}}) {
        ops::GemmDesc part_desc = desc;
        part_desc.m = count;
        Problem part(part_desc, Values::kUniform);
        for (std::int64_t row = 0; row < count; ++row) {
          for (std::int64_t i = 0; i < k; ++i) {
            if (desc.a_transposed) part.a.set(i, row, whole.a.at(i, first + row));
            if (!desc.a_transposed) part.a.set(row, i, whole.a.at(first + row, i));
          }
        }
        run(GetParam().engine, part);
        for (std::int64_t row = 0; row < count; ++row) {
          for (std::int64_t col = 0; col < n; ++col) {
            ASSERT_EQ(part.c.at(row, col), whole.c.at(first + row, col))
                << desc.to_string() << " rows " << first << "+" << count << " at " << row << ", " << col;
          }
        }
      }
    }
  }
}

// Padding must not carry a NaN or an infinity into another row or column.
TEST_P(GemmEngine, NonFiniteValuesStayInTheirRowAndColumn) {
  for (const std::int64_t m : {9, 67}) {
    const ops::GemmDesc desc = all_forms(m, 21, 40, GetParam().bf16).front();
    Problem problem(desc, Values::kUniform);
    problem.a.set(4, 7, std::numeric_limits<float>::quiet_NaN());
    problem.b.set(3, 20, std::numeric_limits<float>::infinity());
    run(GetParam().engine, problem);
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t col = 0; col < desc.n; ++col) {
        ASSERT_EQ(std::isfinite(problem.c.at(row, col)), row != 4 && col != 20) << row << ", " << col;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GemmEngine, testing::ValuesIn(cases()), [](const auto& param_info) {
  return param_info.param.engine.name + (param_info.param.bf16 ? "_bf16" : "_f32");
});

// The residual, or C when accumulating, is added to the f32 product, and the sum is rounded once.
TEST(GemmDefinition, AddsInF32AndRoundsOnce) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const bool accumulate : {false, true}) {
      const ops::GemmDesc plain{.m = 5, .n = 7, .k = 9, .a_dtype = type, .b_dtype = type};
      ops::GemmDesc desc = plain;
      desc.c_dtype = type;
      (accumulate ? desc.accumulate : desc.has_residual) = true;
      const Problem product = definition_of(Problem(plain, Values::kUniform, 0.75f));
      const Problem before(desc, Values::kUniform, 0.75f);
      const Problem sum = definition_of(before);
      const Matrix& added = accumulate ? before.c : before.residual;
      Matrix expected(type, 5, 7, 0);
      for (std::int64_t row = 0; row < 5; ++row)
        for (std::int64_t col = 0; col < 7; ++col) expected.set(row, col, product.c.at(row, col) + added.at(row, col));
      EXPECT_EQ(count_different_bits(sum.c, expected), 0);
      EXPECT_NE(count_different_bits(sum.c, added), 0);
    }
  }
}

TEST(GemmBlocked, EmptyProducts) {
  for (const Engine& engine : engines(false)) {
    if (!engine.name.starts_with("blocked")) continue;
    for (const std::int64_t m : {4, 100}) {
      for (const ops::GemmDesc& desc : all_forms(m, 33, 0, false)) {
        Problem problem(desc, Values::kSmallIntegers);
        const Problem expected = definition_of(problem);
        run(engine, problem);
        EXPECT_EQ(count_different_bits(problem.c, expected.c), 0) << desc.to_string();
      }
    }
    for (const ops::GemmDesc& desc : {ops::GemmDesc{.m = 0, .n = 5, .k = 5}, ops::GemmDesc{.m = 60, .n = 0, .k = 5}}) {
      Problem problem(desc, Values::kUniform);
      run(engine, problem);
    }
  }
}

TEST(GemmBlocked, MixedOperandTypes) {
  for (const Engine& engine : engines(true)) {
    if (!engine.name.starts_with("blocked")) continue;
    for (const bool a_is_bf16 : {false, true}) {
      for (ops::GemmDesc desc : all_forms(70, 90, 300, true)) {
        (a_is_bf16 ? desc.b_dtype : desc.a_dtype) = DType::kF32;
        Problem problem(desc, Values::kSmallIntegers);
        const Problem expected = definition_of(problem);
        run(engine, problem);
        EXPECT_EQ(count_different_bits(problem.c, expected.c), 0) << desc.to_string();
      }
    }
  }
}

// The widened engine is the f32 engine on the widened values, to the bit.
TEST(GemmBlocked, WideningIsExact) {
  Engine widened = engines(false).front();
  Engine f32 = widened;
  widened.impl = gemm_blocked_bf16_widened();
  for (const ops::GemmDesc& desc : all_forms(130, 257, 600, true)) {
    if (desc.has_bias || desc.accumulate) continue;
    Problem narrow(desc, Values::kUniform);
    ops::GemmDesc wide_desc = desc;
    wide_desc.a_dtype = wide_desc.b_dtype = DType::kF32;
    Problem wide(wide_desc, Values::kUniform);
    for (auto [from, to] : {std::pair{&narrow.a, &wide.a}, std::pair{&narrow.b, &wide.b}}) {
      for (std::int64_t row = 0; row < from->view().rows; ++row) {
        for (std::int64_t col = 0; col < from->view().cols; ++col) to->set(row, col, from->at(row, col));
      }
    }
    run(widened, narrow);
    run(f32, wide);
    EXPECT_EQ(count_different_bits(narrow.c, wide.c), 0) << desc.to_string();
  }
}

TEST(GemmBlocked, CopiesWithFmaGiveEqualBits) {
  std::vector<Engine> with_fma;
  for (const Engine& engine : engines(false)) {
    if (engine.name == "blocked_avx2" || engine.name == "blocked_avx512") with_fma.push_back(engine);
  }
  if (with_fma.size() < 2) GTEST_SKIP() << "this processor has no AVX-512";
  for (const ops::GemmDesc& desc : all_forms(130, 257, 600, false)) {
    Problem first(desc, Values::kUniform);
    Problem second(desc, Values::kUniform);
    run(with_fma[0], first);
    run(with_fma[1], second);
    EXPECT_EQ(count_different_bits(first.c, second.c), 0) << desc.to_string();
  }
}

// Rows 4 GiB apart: any 32-bit index or byte offset would land elsewhere. Only the touched pages become resident.
TEST(GemmBlocked, OffsetsAre64Bit) {
  constexpr std::int64_t kStride = std::int64_t{1} << 30;  // elements
  constexpr std::int64_t kRows = 3;
  constexpr std::size_t kBytes = std::size_t{kRows} * kStride * sizeof(float);
  const auto reserve = [] {
    return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* a = reserve();
  void* b = reserve();
  void* c = reserve();
  if (a == MAP_FAILED || b == MAP_FAILED || c == MAP_FAILED) GTEST_SKIP() << "no 36 GiB of address space";
  const ops::GemmDesc desc{.m = kRows, .n = kRows, .k = 2, .b_transposed = true};
  const ops::GemmArgs args{.a = {a, DType::kF32, kRows, 2, kStride},
                           .b = {b, DType::kF32, kRows, 2, kStride},
                           .c = {c, DType::kF32, kRows, kRows, kStride},
                           .bias = {}};
  for (std::int64_t row = 0; row < kRows; ++row) {
    static_cast<float*>(a)[row * kStride] = static_cast<float>(row + 1);
    static_cast<float*>(b)[row * kStride] = static_cast<float>(10 * row + 1);
  }
  const GemmImpl impl = gemm_blocked_f32();
  const runtime::DeviceInfo device;
  std::vector<std::byte> memory(static_cast<std::size_t>(impl.workspace_bytes(desc, device)) + 64);
  void* start = memory.data();
  std::size_t space = memory.size();
  std::align(64, memory.size() - 64, start, space);
  impl.run(desc, args, {device, {static_cast<std::byte*>(start), space}});
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t col = 0; col < kRows; ++col) {
      EXPECT_EQ(static_cast<float*>(c)[row * kStride + col], static_cast<float>((row + 1) * (10 * col + 1)));
    }
  }
  for (void* memory_of : {a, b, c}) munmap(memory_of, kBytes);
}

TEST(GemmRefusals, NameTheReason) {
  const runtime::DeviceInfo device;
  EXPECT_EQ(gemm_blocked_f32().supports({.m = 1, .n = 1, .k = 1, .a_dtype = DType::kBF16}, device).kind,
            ops::RefusalKind::kDType);
  EXPECT_EQ(gemm_blocked_bf16_widened().supports({.m = 1, .n = 1, .k = 1}, device).kind, ops::RefusalKind::kDType);
  EXPECT_EQ(gemm_blocked_f32().supports({.m = 1, .n = 1, .k = 1, .c_dtype = DType::kI32}, device).kind,
            ops::RefusalKind::kDType);
  EXPECT_EQ(gemm_definition().supports({.m = 1, .n = 1, .k = 1, .a_dtype = DType::kI32}, device).kind,
            ops::RefusalKind::kDType);
}

}  // namespace
}  // namespace ida::cpu::test
