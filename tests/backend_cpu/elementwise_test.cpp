#include "backend/cpu/elementwise.h"

#include "backend/cpu/fill.h"
#include "base/rng.h"
#include "op_test_support.h"

namespace ida::cpu {
namespace {

float f32_at(const HostTensor& t, std::int64_t r, std::int64_t c) { return static_cast<float>(t.at(r, c)); }

TEST(Elementwise, AddIsAnF32SumRoundedOnce) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t cols : {1, 9, 40, 40000}) {
      for_every_impl(add_impls(), [&](auto run) {
        HostTensor a(dtype, 3, cols, 1), b(dtype, 3, cols, 2), y(dtype, 3, cols, 3), expected(dtype, 3, cols, 3);
        a.randomize(1);
        b.randomize(2);
        y.for_each([&](auto r, auto c) { expected.set(r, c, static_cast<double>(f32_at(a, r, c) + f32_at(b, r, c))); });
        run({3, cols, dtype}, {a.view(), b.view(), y.view()});
        EXPECT_TRUE(same_bits(y, expected));
        run({3, cols, dtype}, {a.view(), b.view(), a.view()});
        EXPECT_EQ(a.values(), y.values()) << "in place";
      });
    }
  }
}

TEST(Elementwise, ConvertRoundsToNearestEven) {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      for_every_impl(convert_impls(), [&](auto run) {
        HostTensor x(from, 2, 50, 1), y(to, 2, 50, 2);
        x.randomize(1);
        const float edges[] = {
            1.00390625f,  1.01171875f, -1.00390625f, 3.4e38f, 1e-40f, -0.0f, std::numeric_limits<float>::infinity(),
            std::nanf("")};
        for (int i = 0; i < 8; ++i) x.set(1, i, static_cast<double>(edges[i]));
        run({2, 50, from, to, false}, {x.view(), y.view()});
        y.for_each([&](auto r, auto c) {
          const float value = f32_at(x, r, c);
          const float expected = to == DType::kBF16 ? to_f32(bf16_from_f32(value)) : value;
          if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(y.at(r, c)));
          } else {
            EXPECT_EQ(y.at(r, c), static_cast<double>(expected));
            EXPECT_EQ(std::signbit(y.at(r, c)), std::signbit(expected));
          }
        });
      });
    }
  }
}

TEST(Elementwise, ConvertAccumulatesIntoF32Only) {
  for_every_impl(convert_impls(), [&](auto run) {
    HostTensor x(DType::kBF16, 3, 21), y(DType::kF32, 3, 21);
    x.randomize(1);
    y.randomize(2);
    const HostTensor before = y;
    run({3, 21, DType::kBF16, DType::kF32, true}, {x.view(), y.view()});
    y.for_each([&](auto r, auto c) { EXPECT_EQ(f32_at(y, r, c), f32_at(before, r, c) + f32_at(x, r, c)); });
  });
  for (const auto& impl : convert_impls()) {
    EXPECT_EQ(impl.supports({3, 21, DType::kF32, DType::kBF16, true}, {}).kind, ops::RefusalKind::kDType);
    EXPECT_EQ(impl.supports({3, 21, DType::kF32, DType::kI32, false}, {}).kind, ops::RefusalKind::kDType);
  }
}

TEST(Elementwise, FillIsValuePlusNoise) {
  for (const std::int64_t size : {1, 2, 77, 100001}) {
    for_every_impl(fill_impls(), [&](auto run) {
      HostTensor y(DType::kF32, 1, size);
      run({size}, {.y = y.view(), .value = 0.25f, .std_dev = 0.5f, .seed = 42, .stream = 7});
      y.for_each([&](auto r, auto c) {
        EXPECT_EQ(f32_at(y, r, c), 0.25f + 0.5f * normal_at(42, 7, static_cast<std::uint64_t>(c)));
      });
      run({size}, {.y = y.view(), .value = 1.0f});
      y.for_each([&](auto r, auto c) { EXPECT_EQ(f32_at(y, r, c), 1.0f); });
    });
  }
}

TEST(Elementwise, BiasGradIsTheScaledColumnSum) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<HostTensor> results;
    for_every_impl(bias_grad_impls(), [&](auto run) {
      HostTensor grad_y(dtype, 101, 150, 3), grad_bias(DType::kF32, 1, 150);
      grad_y.randomize(1, 1.0, 0.5);
      grad_bias.randomize(2);
      std::vector<double> expected = grad_bias.values();
      grad_y.for_each([&](auto r, auto c) { expected[static_cast<std::size_t>(c)] += 0.5 * grad_y.at(r, c); });
      constexpr float kScale = 0.5f;
      run({101, 150, dtype}, {grad_y.view(), grad_bias.view(), &kScale});
      EXPECT_LT(relative_error(grad_bias.values(), expected), 16 * kF32Eps);  // chains of 32 and 4 additions
      results.push_back(grad_bias);
    });
    for (const HostTensor& result : results) EXPECT_TRUE(same_bits(result, results[0])) << "same order of sums";
  }
}

// A table of tensors, as the op reads it.
struct Ranges {
  explicit Ranges(std::vector<ops::TensorRange> list)
      : num_tensors(static_cast<std::int64_t>(list.size())),
        num_blocks(ops::number_blocks(list)),
        table(DType::kI64, num_tensors, 4) {
    std::memcpy(table.view().data, list.data(), list.size() * sizeof(list[0]));
  }
  std::int64_t num_tensors, num_blocks;
  HostTensor table;
};

TEST(Elementwise, SumSquaresOfManyTensorsAreTheirSingleSums) {
  const std::vector<ops::TensorRange> list = {{.offset = 0, .size = 5000},
                                              {.offset = 5056, .size = 1},
                                              {.offset = 5064, .size = 0},
                                              {.offset = 5064, .size = 7 * 4096},
                                              {.offset = 33739, .size = 4097}};
  HostTensor x(DType::kF32, 1, 38000);
  x.randomize(1);
  const Ranges ranges(list);
  for_every_impl(sum_squares_impls(), [&](auto run) {
    HostTensor sums(DType::kF64, 1, ranges.num_tensors);
    run({38000, ranges.num_tensors, ranges.num_blocks}, {ranges.table.view(), x.view(), sums.view()});
    for (std::size_t t = 0; t < list.size(); ++t) {
      const Ranges one(std::vector{list[t]});
      HostTensor sum(DType::kF64, 1, 1);
      run({38000, 1, one.num_blocks}, {one.table.view(), x.view(), sum.view()});
      EXPECT_EQ(sums.at(0, static_cast<std::int64_t>(t)), sum.at(0, 0)) << t;
    }
    EXPECT_EQ(sums.at(0, 2), 0.0);
  });
}

TEST(Elementwise, SumSquaresIsExactToF64AndHasOneOrder) {
  for (const std::int64_t size : {0, 1, 4095, 4096, 4097, 16384, 5 * 4096 + 17, 70000}) {
    std::vector<double> results;
    for_every_impl(sum_squares_impls(), [&](auto run) {
      HostTensor x(DType::kF32, 1, size), result(DType::kF64, 1, 1);
      x.randomize(1);
      const Ranges one(std::vector<ops::TensorRange>{{.size = size}});
      run({size, 1, one.num_blocks}, {one.table.view(), x.view(), result.view()});
      long double exact = 0.0L;
      for (const double value : x.values()) exact += static_cast<long double>(value) * static_cast<long double>(value);
      EXPECT_NEAR(result.at(0, 0), static_cast<double>(exact), 1e-12 * static_cast<double>(exact));
      results.push_back(result.at(0, 0));
    });
    for (const double result : results) EXPECT_EQ(result, results[0]) << size;
  }
}

// 1e30^2 overflows f32; the norm must not.
TEST(Elementwise, SumSquaresDoesNotOverflowF32) {
  for_every_impl(sum_squares_impls(), [&](auto run) {
    HostTensor x(DType::kF32, 1, 3), result(DType::kF64, 1, 1);
    x.fill(1e30);
    const Ranges one(std::vector<ops::TensorRange>{{.size = 3}});
    run({3, 1, 1}, {one.table.view(), x.view(), result.view()});
    EXPECT_NEAR(result.at(0, 0), 3e60, 1e54);
  });
}

TEST(Elementwise, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    const auto device = devices_of_every_isa()[0];
    HostTensor x(DType::kF32, 1, 100000), y(DType::kF32, 1, 100000), norm(DType::kF64, 1, 1);
    HostTensor matrix(DType::kBF16, 200, 500), bias(DType::kF32, 1, 500);
    x.randomize(1);
    matrix.randomize(2);
    bias.fill(0.0);
    run_impl(add_impls().front(), {1, 100000, DType::kF32}, {x.view(), x.view(), y.view()}, device);
    const Ranges one(std::vector<ops::TensorRange>{{.size = 100000}});
    run_impl(sum_squares_impls().front(), {100000, 1, one.num_blocks}, {one.table.view(), x.view(), norm.view()}, device);
    run_impl(bias_grad_impls().front(), {200, 500, DType::kBF16}, {matrix.view(), bias.view()}, device);
    return std::vector<HostTensor>{y, norm, bias};
  });
}

}  // namespace
}  // namespace ida::cpu
