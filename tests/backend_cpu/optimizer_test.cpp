#include "backend/cpu/optimizer.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::OptimizerDesc;
using ops::OptimizerKind;
using ops::OptimizerScalars;

struct Case {
  Case(OptimizerKind kind, DType weight_dtype, DType state_dtype, std::int64_t size = 103)
      : desc{kind, size, 1, ops::range_blocks(size), weight_dtype, state_dtype},
        scalars(DType::kF32, 1, 8),
        ranges(DType::kI64, 1, 4),
        grad(DType::kF32, 1, size),
        master(DType::kF32, 1, size),
        m(state_dtype, 1, size),
        v(state_dtype, 1, size),
        weight(weight_dtype, 1, size) {
    grad.randomize(1);
    master.randomize(2);
    m.fill(0.0);
    v.fill(0.0);
    set_ranges({{.offset = 0, .size = size, .decay = 1}});
  }
  void set_ranges(std::vector<ops::TensorRange> list) {
    desc.num_tensors = static_cast<std::int64_t>(list.size());
    desc.num_blocks = ops::number_blocks(list);
    ranges = HostTensor(DType::kI64, desc.num_tensors, 4);
    std::memcpy(ranges.view().data, list.data(), list.size() * sizeof(list[0]));
  }
  void set(const OptimizerScalars& s) { std::memcpy(scalars.view().data, &s, sizeof(s)); }
  ops::OptimizerArgs args() const {
    ops::OptimizerArgs a{scalars.view(), ranges.view(), grad.view(), master.view(), m.view(), v.view(), weight.view()};
    if (desc.kind == OptimizerKind::kLion) a.v = {};
    if (desc.weight_dtype == DType::kF32) a.weight = a.master;
    return a;
  }
  OptimizerDesc desc;
  HostTensor scalars, ranges, grad, master, m, v, weight;
};

OptimizerScalars scalars_at(int step, OptimizerKind kind) {
  OptimizerScalars s;
  s.lr = 1e-2f;
  s.beta2 = kind == OptimizerKind::kLion ? 0.99f : 0.95f;
  s.weight_decay = 0.1f;
  s.grad_scale = 0.5f;
  s.bias_correction1 = static_cast<float>(1.0 - std::pow(0.9, step));
  s.bias_correction2 = static_cast<float>(1.0 - std::pow(0.95, step));
  return s;
}

TEST(Optimizer, AdamwIsTheFormulaOverSteps) {
  for_every_impl(optimizer_impls(), [&](auto run) {
    for (const bool decay : {true, false}) {
      Case t(OptimizerKind::kAdamW, DType::kF32, DType::kF32);
      t.set_ranges({{.offset = 0, .size = t.desc.size, .decay = decay ? 1 : 0}});
      std::vector<double> p = t.master.values(), m(p.size()), v(p.size());
      for (int step = 1; step <= 5; ++step) {
        t.grad.randomize(static_cast<std::uint64_t>(10 + step));
        t.set(scalars_at(step, OptimizerKind::kAdamW));
        run(t.desc, t.args());
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double g = 0.5 * t.grad.values()[i];
          if (decay) p[i] *= 1.0 - 1e-2 * 0.1;
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.95 * v[i] + 0.05 * g * g;
          p[i] -= 1e-2 * (m[i] / (1.0 - std::pow(0.9, step))) / (std::sqrt(v[i] / (1.0 - std::pow(0.95, step))) + 1e-8);
        }
      }
      EXPECT_LT(relative_error(t.master.values(), p), 1e-6);
      EXPECT_LT(relative_error(t.m.values(), m), 1e-6);
      EXPECT_LT(relative_error(t.v.values(), v), 2e-6);  // 1 - 0.95 in f32 is off by 1e-6 of itself
    }
  });
}

TEST(Optimizer, LionIsTheFormulaOverSteps) {
  for_every_impl(optimizer_impls(), [&](auto run) {
    Case t(OptimizerKind::kLion, DType::kF32, DType::kF32);
    std::vector<double> p = t.master.values(), m(p.size());
    for (int step = 1; step <= 5; ++step) {
      t.grad.randomize(static_cast<std::uint64_t>(10 + step));
      t.grad.set(0, 7, 0.0);  // m stays 0 there: sign(0) = 0, only the decay moves it
      t.set(scalars_at(step, OptimizerKind::kLion));
      run(t.desc, t.args());
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = 0.5 * t.grad.values()[i];
        const double direction = 0.9 * m[i] + 0.1 * g;
        p[i] = p[i] * (1.0 - 1e-2 * 0.1) - 1e-2 * ((direction > 0.0) - (direction < 0.0));
        m[i] = 0.99 * m[i] + 0.01 * g;
      }
    }
    EXPECT_LT(relative_error(t.master.values(), p), 1e-6);
    EXPECT_LT(relative_error(t.m.values(), m), 2e-6);
    EXPECT_EQ(t.m.at(0, 7), 0.0);
    EXPECT_NEAR(t.master.at(0, 7), p[7], 1e-6);
  });
}

TEST(Optimizer, EveryFormHasTheBitsOfTheDefinition) {
  for (const auto kind : {OptimizerKind::kAdamW, OptimizerKind::kLion}) {
    for (const DType weight : {DType::kF32, DType::kBF16}) {
      for (const DType state : {DType::kF32, DType::kBF16}) {
        std::vector<Case> cases;
        for_every_impl(optimizer_impls(), [&](auto run) {
          Case t(kind, weight, state);
          for (int step = 1; step <= 3; ++step) {
            t.set(scalars_at(step, kind));
            run(t.desc, t.args());
          }
          if (weight == DType::kBF16) {
            for (std::int64_t i = 0; i < t.desc.size; ++i) {
              EXPECT_EQ(t.weight.at(0, i),
                        static_cast<double>(to_f32(bf16_from_f32(static_cast<float>(t.master.at(0, i))))));
            }
          }
          cases.push_back(t);
        });
        for (const Case& t : cases) {
          EXPECT_TRUE(same_bits(t.master, cases[0].master));
          EXPECT_TRUE(same_bits(t.m, cases[0].m));
          EXPECT_TRUE(same_bits(t.v, cases[0].v));
        }
      }
    }
  }
}

TEST(Optimizer, NanGradientIsNotHidden) {
  for_every_impl(optimizer_impls(), [&](auto run) {
    for (const auto kind : {OptimizerKind::kAdamW, OptimizerKind::kLion}) {
      Case t(kind, DType::kF32, DType::kF32);
      t.grad.set(0, 5, std::nan(""));
      t.set(scalars_at(1, kind));
      run(t.desc, t.args());
      EXPECT_TRUE(std::isnan(t.master.at(0, 5)));
      EXPECT_FALSE(std::isnan(t.master.at(0, 6)));
    }
  });
}

// Tensors of a flat buffer, blocks that end within them, gaps between them, one that is empty.
TEST(Optimizer, ManyTensorsAreTheirSingleSteps) {
  const std::vector<ops::TensorRange> list = {{.offset = 0, .size = 5000, .decay = 1},
                                              {.offset = 5056, .size = 1, .decay = 0},
                                              {.offset = 5064, .size = 0, .decay = 1},
                                              {.offset = 5064, .size = 8192, .decay = 0},
                                              {.offset = 13259, .size = 4097, .decay = 1}};
  constexpr std::int64_t kSize = 17400;
  for (const auto kind : {OptimizerKind::kAdamW, OptimizerKind::kLion}) {
    for_every_impl(optimizer_impls(), [&](auto run) {
      Case all(kind, DType::kBF16, DType::kF32, kSize);
      Case single(kind, DType::kBF16, DType::kF32, kSize);
      all.set(scalars_at(1, kind));
      single.set(scalars_at(1, kind));
      all.set_ranges(list);
      run(all.desc, all.args());
      for (const ops::TensorRange& range : list) {
        single.set_ranges({range});
        run(single.desc, single.args());
      }
      EXPECT_TRUE(same_bits(all.master, single.master) && same_bits(all.m, single.m) && same_bits(all.v, single.v) &&
                  same_bits(all.weight, single.weight));
      const Case before(kind, DType::kBF16, DType::kF32, kSize);
      for (const std::int64_t gap : {5000, 5055, 5057, 13258, 17356, 17399})
        EXPECT_EQ(all.master.at(0, gap), before.master.at(0, gap)) << gap;
      EXPECT_NE(all.master.at(0, 13259), before.master.at(0, 13259));
    });
  }
}

TEST(Optimizer, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t(OptimizerKind::kAdamW, DType::kBF16, DType::kF32, 70001);
    t.set(scalars_at(1, OptimizerKind::kAdamW));
    run_impl(optimizer_impls().front(), t.desc, t.args(), devices_of_every_isa()[0]);
    return std::vector<HostTensor>{t.master, t.m, t.v, t.weight};
  });
}

}  // namespace
}  // namespace ida::cpu
