#include "backend/cpu/rope.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::RopeDesc;
using ops::RopeDirection;

// Tables as the model builds them: f32 inverse frequencies, f32 angles.
struct Tables {
  Tables(std::int64_t positions, std::int64_t rotary_dim, double theta)
      : cosine(DType::kF32, positions, rotary_dim / 2), sine(DType::kF32, positions, rotary_dim / 2) {
    cosine.for_each([&](std::int64_t p, std::int64_t i) {
      const float frequency =
          static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim)));
      const float angle = static_cast<float>(p) * frequency;
      cosine.set(p, i, std::cos(static_cast<double>(angle)));
      sine.set(p, i, std::sin(static_cast<double>(angle)));
    });
  }
  HostTensor cosine, sine;
};

struct Case {
  Case(const RopeDesc& d, std::int64_t max_position, double theta = 10000.0)
      : desc(d),
        tables(max_position, d.rotary_dim, theta),
        x(d.dtype, d.rows, d.num_heads * d.head_dim, 3),
        positions(DType::kI32, 1, d.rows) {
    x.randomize(1);
    for (std::int64_t r = 0; r < d.rows; ++r) {
      positions.set(
          0, r,
          static_cast<double>(bounded_at(3, 4, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(max_position))));
    }
  }
  ops::RopeArgs args() const { return {x.view(), positions.view(), tables.cosine.view(), tables.sine.view()}; }
  RopeDesc inverse() const {
    RopeDesc d = desc;
    d.direction = RopeDirection::kInverse;
    return d;
  }
  RopeDesc desc;
  Tables tables;
  HostTensor x, positions;
};

// The rotation matrix applied element by element, with a table of its own in f64.
std::vector<double> rotate_f64(const Case& t, const std::vector<double>& x) {
  std::vector<double> y = x;
  const std::int64_t half = t.desc.rotary_dim / 2;
  for (std::int64_t row = 0; row < t.desc.rows; ++row) {
    const auto position = static_cast<std::int64_t>(t.positions.at(0, row));
    for (std::int64_t head = 0; head < t.desc.num_heads; ++head) {
      const auto at = static_cast<std::size_t>((row * t.desc.num_heads + head) * t.desc.head_dim);
      for (std::int64_t i = 0; i < half; ++i) {
        const auto a = at + static_cast<std::size_t>(i);
        const auto b = a + static_cast<std::size_t>(half);
        y[a] = x[a] * t.tables.cosine.at(position, i) - x[b] * t.tables.sine.at(position, i);
        y[b] = x[b] * t.tables.cosine.at(position, i) + x[a] * t.tables.sine.at(position, i);
      }
    }
  }
  return y;
}

TEST(Rope, ForwardIsTheRotation) {
  for (const std::int64_t rotary_dim : {2, 10, 64, 100}) {
    for_every_impl(rope_impls(), [&](auto run) {
      Case t({5, 3, 100, rotary_dim, RopeDirection::kForward, DType::kF32}, 300);
      const auto exact = rotate_f64(t, t.x.values());
      const HostTensor before = t.x;
      run(t.desc, t.args());
      EXPECT_LT(relative_error(t.x.values(), exact), 2 * kF32Eps);
      t.x.for_each([&](std::int64_t r, std::int64_t c) {
        if (c % 100 >= rotary_dim) {
          EXPECT_EQ(t.x.at(r, c), before.at(r, c)) << "beyond rotary_dim";
        }
      });
    });
  }
}

TEST(Rope, BackwardIsTheDerivative) {
  for_every_impl(rope_impls(), [&](auto run) {
    Case t({2, 2, 14, 6, RopeDirection::kForward, DType::kF32}, 50);
    HostTensor grad_y = t.x;
    grad_y.randomize(8);
    const auto expected =
        numeric_gradient(t.x.values(), [&](const auto& x) { return dot(rotate_f64(t, x), grad_y.values()); });
    auto args = t.args();
    args.x = grad_y.view();
    run(t.inverse(), args);
    EXPECT_LT(relative_error(grad_y.values(), expected), 1e-6);
  });
}

TEST(Rope, FastFormHasTheBitsOfTheDefinition) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto direction : {RopeDirection::kForward, RopeDirection::kInverse}) {
      Case expected({9, 3, 64, 64, direction, dtype}, 8192);
      run_impl(rope_impls().back(), expected.desc, expected.args(), devices_of_every_isa()[0]);
      for_every_impl(rope_impls(), [&](auto run) {
        Case t({9, 3, 64, 64, direction, dtype}, 8192);
        run(t.desc, t.args());
        EXPECT_TRUE(same_bits(t.x, expected.x));
      });
    }
  }
}

// Values that are bf16 come back exactly when the rotated ones are kept in f32.
TEST(Rope, RoundTripThroughF32ReturnsBf16Values) {
  for_every_impl(rope_impls(), [&](auto run) {
    Case t({64, 2, 64, 64, RopeDirection::kForward, DType::kF32}, 8192, 500000.0);
    t.x.for_each([&](std::int64_t r, std::int64_t c) {
      t.x.set(r, c, static_cast<double>(to_f32(bf16_from_f32(static_cast<float>(t.x.at(r, c))))));
    });
    const HostTensor before = t.x;
    run(t.desc, t.args());
    run(t.inverse(), t.args());
    // A component much smaller than its partner keeps an error of the partner's size, below half a bf16 step of the
    // pair; what is compared is therefore the pair rounded to the larger component's step.
    t.x.for_each([&](std::int64_t r, std::int64_t c) {
      const std::int64_t partner = c % 64 < 32 ? c + 32 : c - 32;
      const double larger = std::max(std::abs(before.at(r, c)), std::abs(before.at(r, partner)));
      EXPECT_LE(std::abs(t.x.at(r, c) - before.at(r, c)), 4 * kF32Eps * larger);
      if (std::abs(before.at(r, c)) > larger * 0x1.0p-12) {
        EXPECT_EQ(static_cast<double>(to_f32(bf16_from_f32(static_cast<float>(t.x.at(r, c))))), before.at(r, c));
      }
    });
  });
}

// With a bf16 intermediate at most one bf16 step of the larger component of the pair is lost.
TEST(Rope, RoundTripThroughBf16LosesAtMostOneStep) {
  for_every_impl(rope_impls(), [&](auto run) {
    Case t({64, 2, 64, 64, RopeDirection::kForward, DType::kBF16}, 8192);
    const HostTensor before = t.x;
    run(t.desc, t.args());
    run(t.inverse(), t.args());
    t.x.for_each([&](std::int64_t r, std::int64_t c) {
      const std::int64_t partner = c % 64 < 32 ? c + 32 : c - 32;
      const double larger = std::max(std::abs(before.at(r, c)), std::abs(before.at(r, partner)));
      const double step = std::exp2(std::floor(std::log2(larger)) - 7.0);
      EXPECT_LE(std::abs(t.x.at(r, c) - before.at(r, c)), step);
    });
  });
}

// Rotating (1, 0) shows the angle itself. bf16 tables would be wrong by whole radians at these positions.
TEST(Rope, PhaseErrorAtLongPositionsIsSmall) {
  for (const double theta : {10000.0, 500000.0}) {
    for_every_impl(rope_impls(), [&](auto run) {
      Case t({4, 1, 64, 64, RopeDirection::kForward, DType::kF32}, 8192, theta);
      const std::int64_t positions[] = {512, 2048, 4096, 8191};
      for (std::int64_t r = 0; r < 4; ++r) {
        t.positions.set(0, r, static_cast<double>(positions[r]));
        for (std::int64_t c = 0; c < 64; ++c) t.x.set(r, c, c < 32 ? 1.0 : 0.0);
      }
      run(t.desc, t.args());
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t i = 0; i < 32; ++i) {
          const double exact = static_cast<double>(positions[r]) * std::pow(theta, -static_cast<double>(i) / 32.0);
          const double got = std::atan2(t.x.at(r, 32 + i), t.x.at(r, i));
          EXPECT_LT(std::abs(std::remainder(got - exact, 2.0 * std::acos(-1.0))), 1e-3);
        }
      }
    });
  }
}

// Relative positions: moving a query and a key together leaves their product.
TEST(Rope, ProductDependsOnDistanceOnly) {
  for_every_impl(rope_impls(), [&](auto run) {
    Case t({4, 1, 64, 64, RopeDirection::kForward, DType::kF32}, 2000);
    for (std::int64_t c = 0; c < 64; ++c) {
      t.x.set(2, c, t.x.at(0, c));
      t.x.set(3, c, t.x.at(1, c));
    }
    const double positions[] = {5, 17, 1005, 1017};
    for (std::int64_t r = 0; r < 4; ++r) t.positions.set(0, r, positions[r]);
    run(t.desc, t.args());
    double near = 0.0, far = 0.0, norm = 0.0;
    for (std::int64_t c = 0; c < 64; ++c) {
      near += t.x.at(0, c) * t.x.at(1, c);
      far += t.x.at(2, c) * t.x.at(3, c);
      norm += std::abs(t.x.at(0, c) * t.x.at(1, c));
    }
    // Angles near 1000 rad carry an f32 rounding of 3e-5 rad.
    EXPECT_NEAR(near, far, 1e-4 * norm);
  });
}

TEST(Rope, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t({300, 4, 64, 64, RopeDirection::kForward, DType::kBF16}, 500);
    run_impl(rope_impls().front(), t.desc, t.args(), devices_of_every_isa()[0]);
    return std::vector<HostTensor>{t.x};
  });
}

}  // namespace
}  // namespace ida::cpu
