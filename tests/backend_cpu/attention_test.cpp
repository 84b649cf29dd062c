// Attention's numbers: forward against the formula, backward against finite differences and the definition.
#include "attention_test_support.h"

namespace ida::cpu {
namespace {

constexpr double kForwardTolerance = 5e-7;   // f32 chains of head_dim terms, exp to 2 steps: a few roundings of 6e-8
constexpr double kBackwardTolerance = 2e-6;  // three chained products, and dP - rowsum(dO O) cancels

TEST(Attention, ForwardIsTheFormula) {
  for (const std::int64_t head_dim : {2, 16, 20, 64, 80, 128, 256}) {
    for (const std::int64_t window : {0, 1, 5, 64, 70}) {
      const AttentionCase problem({4, 2, head_dim, window, DType::kF32}, {1, 3, 0, 70, 130}, 2);
      const AttentionValues exact = attention_f64(problem);
      for_every_impl(attention_forward_impls(), [&](auto run) {
        AttentionCase t = problem;
        run(t.desc, t.forward());
        EXPECT_LT(relative_error(t.o.values(), exact.o), kForwardTolerance) << head_dim << " window " << window;
        EXPECT_LT(relative_error(t.lse.values(), exact.lse), kForwardTolerance) << head_dim << " window " << window;
      });
    }
  }
}

TEST(Attention, ForwardAtEveryAwkwardLength) {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 127, 128, 129, 1025}) {
    const AttentionCase problem({2, 1, 8, 0, DType::kF32}, {length});
    const AttentionValues exact = attention_f64(problem);
    for_every_impl(attention_forward_impls(), [&](auto run) {
      AttentionCase t = problem;
      run(t.desc, t.forward());
      EXPECT_LT(relative_error(t.o.values(), exact.o), kForwardTolerance) << length;
    });
  }
}

TEST(Attention, BackwardIsTheDerivative) {
  for (const std::int64_t window : {0, 3}) {
    for (const std::int64_t num_kv_heads : {1, 2, 4}) {
      for_every_impl(attention_backward_impls(), [&](auto run) {
        AttentionCase t({4, num_kv_heads, 6, window, DType::kF32}, {5, 1, 0, 7}, 1);
        run_impl(attention_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
        run(t.desc, t.backward());
        const auto q = t.q.values(), k = t.k.values(), v = t.v.values(), grad_o = t.grad_o.values();
        const auto loss = [&](const auto& a, const auto& b, const auto& c) {
          return dot(attention_f64(t, a, b, c).o, grad_o);
        };
        const auto grad_q = numeric_gradient(q, [&](const auto& x) { return loss(x, k, v); });
        const auto grad_k = numeric_gradient(k, [&](const auto& x) { return loss(q, x, v); });
        const auto grad_v = numeric_gradient(v, [&](const auto& x) { return loss(q, k, x); });
        EXPECT_LT(relative_error(t.grad_q.values(), grad_q), kBackwardTolerance);
        EXPECT_LT(relative_error(t.grad_k.values(), grad_k), kBackwardTolerance);
        EXPECT_LT(relative_error(t.grad_v.values(), grad_v), kBackwardTolerance);
      });
    }
  }
}

// Long shapes against the definition, which the differences above tie to the formula.
void expect_backward_agrees(const AttentionShape& shape, const std::vector<std::int64_t>& lengths) {
  const auto device = devices_of_every_isa()[0];
  AttentionCase expected(shape, lengths, 1);
  run_impl(attention_forward_impls().back(), expected.desc, expected.forward(), device);
  run_impl(attention_backward_impls().back(), expected.desc, expected.backward(), device);
  for_every_impl(attention_backward_impls(), [&](auto run) {
    AttentionCase t(shape, lengths, 1);
    t.o = expected.o;
    t.lse = expected.lse;
    run(t.desc, t.backward());
    EXPECT_LT(relative_error(t.grad_v.values(), expected.grad_v.values()), kBackwardTolerance);
    if (shape.window == 1) {  // a query that sees one key has no gradient: what is left is rounding
      for (const double x : t.grad_q.values()) EXPECT_LT(std::abs(x), 2e-5);
      for (const double x : t.grad_k.values()) EXPECT_LT(std::abs(x), 2e-5);
      return;
    }
    EXPECT_LT(relative_error(t.grad_q.values(), expected.grad_q.values()), kBackwardTolerance);
    EXPECT_LT(relative_error(t.grad_k.values(), expected.grad_k.values()), kBackwardTolerance);
  });
}

TEST(Attention, BackwardAtEveryAwkwardLength) {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 127, 128, 129}) {
    expect_backward_agrees({4, 2, 16, 0, DType::kF32}, {length});
  }
  expect_backward_agrees({1, 1, 4, 0, DType::kF32}, {1025});
}

TEST(Attention, BackwardOfHeadDimensionsAndWindows) {
  for (const std::int64_t head_dim : {2, 20, 64, 80, 128, 256}) {
    for (const std::int64_t window : {0, 1, 64, 70, 100}) {
      expect_backward_agrees({2, 1, head_dim, window, DType::kF32}, {3, 150});
    }
  }
}

// bf16 storage, f32 arithmetic: the result is the f32 result of the same operands, rounded once.
TEST(Attention, Bf16IsTheF32ResultRoundedOnce) {
  for (const std::int64_t window : {0, 40}) {
    const std::vector<std::int64_t> lengths = {100, 65};
    AttentionCase wide({6, 2, 64, window, DType::kF32}, lengths, 1);
    AttentionCase narrow({6, 2, 64, window, DType::kBF16}, lengths, 1);
    wide.q.assign(narrow.q.values());
    wide.k.assign(narrow.k.values());
    wide.v.assign(narrow.v.values());
    wide.grad_o.assign(narrow.grad_o.values());
    const AttentionValues exact = attention_f64(wide);
    const auto device = devices_of_every_isa()[0];
    run_impl(attention_forward_impls().back(), wide.desc, wide.forward(), device);
    for_every_impl(attention_forward_impls(), [&](auto run) {
      AttentionCase t = narrow;
      run(t.desc, t.forward());
      EXPECT_LT(relative_error(t.o.values(), exact.o), 1.01 * bf16_rounding_error(exact.o) + kForwardTolerance);
    });
    // Backward reads the rounded o: give the f32 run the same.
    run_impl(attention_forward_impls().back(), narrow.desc, narrow.forward(), device);
    wide.o.assign(narrow.o.values());
    run_impl(attention_backward_impls().back(), wide.desc, wide.backward(), device);
    for_every_impl(attention_backward_impls(), [&](auto run) {
      AttentionCase t = narrow;
      run(t.desc, t.backward());
      const auto agrees = [](const HostTensor& got, const HostTensor& reference) {
        const auto values = reference.values();
        EXPECT_LT(relative_error(got.values(), values), 1.01 * bf16_rounding_error(values) + kBackwardTolerance);
      };
      agrees(t.grad_q, wide.grad_q);
      agrees(t.grad_k, wide.grad_k);
      agrees(t.grad_v, wide.grad_v);
    });
  }
}

TEST(Attention, LargeScoresStayFinite) {
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({1, 1, 16, 0, DType::kF32}, {90});
    t.q.randomize(1, 100.0);
    t.k.randomize(2, 100.0);
    run(t.desc, t.forward());
    for (const double x : t.o.values()) EXPECT_TRUE(std::isfinite(x));
    for (const double x : t.lse.values()) EXPECT_TRUE(std::isfinite(x));
  });
}

TEST(Attention, DoesNotDependOnThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_same_bits_whatever_the_threads([&] {
      AttentionCase t({6, 2, 32, 50, dtype}, {70, 1, 130, 33});
      const auto device = devices_of_every_isa()[0];
      run_impl(attention_forward_impls().front(), t.desc, t.forward(), device);
      run_impl(attention_backward_impls().front(), t.desc, t.backward(), device);
      return std::vector<HostTensor>{t.o, t.lse, t.grad_q, t.grad_k, t.grad_v};
    });
  }
}

}  // namespace
}  // namespace ida::cpu
