#include "backend/cpu/rms_norm.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::RmsNormDesc;

std::vector<double> forward_f64(const RmsNormDesc& desc, const std::vector<double>& x, const std::vector<double>& w) {
  std::vector<double> y(x.size());
  const auto cols = static_cast<std::size_t>(desc.cols);
  for (std::size_t begin = 0; begin < x.size(); begin += cols) {
    double sum = 0.0;
    for (std::size_t c = 0; c < cols; ++c) sum += x[begin + c] * x[begin + c];
    const double rstd = 1.0 / std::sqrt(sum / static_cast<double>(cols) + static_cast<double>(desc.eps));
    for (std::size_t c = 0; c < cols; ++c) y[begin + c] = x[begin + c] * rstd * w[c];
  }
  return y;
}

struct Case {
  explicit Case(const RmsNormDesc& d)
      : desc(d),
        x(d.dtype, d.rows, d.cols * d.num_groups, 3),
        w(d.dtype, 1, d.cols),
        y(d.dtype, d.rows, d.cols * d.num_groups, 5),
        rstd(DType::kF32, d.rows, d.num_groups),
        grad_y(d.dtype, d.rows, d.cols * d.num_groups, 1),
        grad_x(d.dtype, d.rows, d.cols * d.num_groups, 2),
        grad_w(DType::kF32, 1, d.cols) {
    x.randomize(1);
    w.randomize(2, 0.3, 1.0);
    grad_y.randomize(3);
    grad_w.randomize(4);
  }
  ops::RmsNormForwardArgs forward() const { return {x.view(), w.view(), y.view(), rstd.view()}; }
  ops::RmsNormBackwardArgs backward() const {
    return {grad_y.view(), x.view(), w.view(), rstd.view(), grad_x.view(), grad_w.view(), &kGradWScale, false};
  }
  static constexpr float kGradWScale = 0.5f;
  RmsNormDesc desc;
  HostTensor x, w, y, rstd, grad_y, grad_x, grad_w;
};

TEST(RmsNorm, ForwardIsTheFormula) {
  for (const std::int64_t cols : {1, 7, 64, 100, 576}) {
    for (const std::int64_t groups : {1, 3}) {
      for_every_impl(rms_norm_forward_impls(), [&](auto run) {
        Case t({5, cols, groups, 1e-5f, DType::kF32});
        run(t.desc, t.forward());
        // Three products and a square root, each rounded once; the sum's error halves under the root.
        const auto exact = forward_f64(t.desc, t.x.values(), t.w.values());
        EXPECT_LT(relative_error(t.y.values(), exact), 4 * kF32Eps) << cols;
        Case b({5, cols, groups, 1e-5f, DType::kBF16});
        run(b.desc, b.forward());
        const auto exact_bf16 = forward_f64(b.desc, b.x.values(), b.w.values());
        EXPECT_LT(relative_error(b.y.values(), exact_bf16), 1.05 * bf16_rounding_error(exact_bf16) + 4 * kF32Eps);
      });
    }
  }
}

TEST(RmsNorm, BackwardIsTheDerivative) {
  for (const std::int64_t groups : {1, 4}) {
    for_every_impl(rms_norm_backward_impls(), [&](auto run) {
      Case t({3, 19, groups, 1e-3f, DType::kF32});
      run_impl(rms_norm_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
      const std::vector<double> before = t.grad_w.values();
      run(t.desc, t.backward());
      const std::vector<double> dy = t.grad_y.values();
      const auto grad_x =
          numeric_gradient(t.x.values(), [&](const auto& x) { return dot(forward_f64(t.desc, x, t.w.values()), dy); });
      auto grad_w =
          numeric_gradient(t.w.values(), [&](const auto& w) { return dot(forward_f64(t.desc, t.x.values(), w), dy); });
      for (std::size_t i = 0; i < grad_w.size(); ++i) grad_w[i] = before[i] + 0.5 * grad_w[i];
      EXPECT_LT(relative_error(t.grad_x.values(), grad_x), 1e-6);
      EXPECT_LT(relative_error(t.grad_w.values(), grad_w), 1e-6);
    });
  }
}

TEST(RmsNorm, BackwardAddsToTheResidualGradientWithOneRounding) {
  for_every_impl(rms_norm_backward_impls(), [&](auto run) {
    Case plain({6, 70, 1, 1e-5f, DType::kF32});
    run_impl(rms_norm_forward_impls().back(), plain.desc, plain.forward(), devices_of_every_isa()[0]);
    run(plain.desc, plain.backward());
    Case added({6, 70, 1, 1e-5f, DType::kF32});
    run_impl(rms_norm_forward_impls().back(), added.desc, added.forward(), devices_of_every_isa()[0]);
    added.grad_x.randomize(9);
    const HostTensor residual = added.grad_x;
    auto args = added.backward();
    args.add_to_grad_x = true;
    run(added.desc, args);
    added.grad_x.for_each([&](std::int64_t r, std::int64_t c) {
      EXPECT_EQ(added.grad_x.at(r, c), static_cast<double>(static_cast<float>(residual.at(r, c) + plain.grad_x.at(r, c))));
    });
  });
}

TEST(RmsNorm, MayWorkInPlace) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(rms_norm_forward_impls(), [&](auto run) {
      Case t({6, 70, 2, 1e-5f, dtype});
      run(t.desc, t.forward());
      Case in_place({6, 70, 2, 1e-5f, dtype});
      auto args = in_place.forward();
      args.y = args.x;
      run(in_place.desc, args);
      EXPECT_EQ(in_place.x.values(), t.y.values());
    });
    for_every_impl(rms_norm_backward_impls(), [&](auto run) {
      Case t({6, 70, 2, 1e-5f, dtype});
      run_impl(rms_norm_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
      run(t.desc, t.backward());
      Case in_place({6, 70, 2, 1e-5f, dtype});
      in_place.rstd = t.rstd;
      auto args = in_place.backward();
      args.grad_x = args.grad_y;
      run(in_place.desc, args);
      EXPECT_EQ(in_place.grad_y.values(), t.grad_x.values());
      EXPECT_TRUE(same_bits(in_place.grad_w, t.grad_w));
    });
  }
}

TEST(RmsNorm, Bf16BackwardIsAsGoodAsOneRounding) {
  for_every_impl(rms_norm_backward_impls(), [&](auto run) {
    Case t({20, 128, 1, 1e-5f, DType::kBF16});
    run_impl(rms_norm_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
    run(t.desc, t.backward());
    Case wide({20, 128, 1, 1e-5f, DType::kF32});
    wide.x.assign(t.x.values());
    wide.w.assign(t.w.values());
    wide.grad_y.assign(t.grad_y.values());
    wide.rstd = t.rstd;
    run(wide.desc, wide.backward());
    const auto exact = wide.grad_x.values();
    EXPECT_LT(relative_error(t.grad_x.values(), exact), 1.01 * bf16_rounding_error(exact));
    EXPECT_LT(relative_error(t.grad_w.values(), wide.grad_w.values()), 8 * kF32Eps);
  });
}

TEST(RmsNorm, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t({700, 96, 2, 1e-5f, DType::kF32});
    const auto device = devices_of_every_isa()[0];
    run_impl(rms_norm_forward_impls().front(), t.desc, t.forward(), device);
    run_impl(rms_norm_backward_impls().front(), t.desc, t.backward(), device);
    return std::vector<HostTensor>{t.y, t.rstd, t.grad_x, t.grad_w};
  });
}

TEST(RmsNorm, GradientOfWeightsOfManyRows) {
  for_every_impl(rms_norm_backward_impls(), [&](auto run) {
    Case t({9000, 3, 1, 1e-5f, DType::kF32});
    run_impl(rms_norm_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
    t.grad_w.fill(0.0);
    run(t.desc, t.backward());
    std::vector<double> expected(3);
    t.x.for_each([&](std::int64_t r, std::int64_t c) {
      expected[static_cast<std::size_t>(c)] += 0.5 * t.grad_y.at(r, c) * t.x.at(r, c) * t.rstd.at(r, 0);
    });
    // Terms of random sign: the error of a sum of n terms grows with sqrt(n) like the sum itself.
    EXPECT_LT(relative_error(t.grad_w.values(), expected), 1e-5);
  });
}

}  // namespace
}  // namespace ida::cpu
