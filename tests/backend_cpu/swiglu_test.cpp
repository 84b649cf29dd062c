#include "backend/cpu/swiglu.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::SwigluDesc;

std::vector<double> forward_f64(const SwigluDesc& desc, const std::vector<double>& gate_up) {
  const auto cols = static_cast<std::size_t>(desc.cols);
  std::vector<double> y;
  for (std::size_t row = 0; row < static_cast<std::size_t>(desc.rows); ++row) {
    for (std::size_t c = 0; c < cols; ++c) {
      const double z = gate_up[row * 2 * cols + c];
      y.push_back(z / (1.0 + std::exp(-z)) * gate_up[row * 2 * cols + cols + c]);
    }
  }
  return y;
}

struct Case {
  Case(std::int64_t rows, std::int64_t cols, DType dtype, double scale = 2.0)
      : desc{rows, cols, dtype},
        gate_up(dtype, rows, 2 * cols, 3),
        y(dtype, rows, cols, 1),
        grad_y(dtype, rows, cols),
        grad_gate_up(dtype, rows, 2 * cols, 2) {
    gate_up.randomize(1, scale);
    grad_y.randomize(2);
  }
  SwigluDesc desc;
  HostTensor gate_up, y, grad_y, grad_gate_up;
};

TEST(Swiglu, ForwardIsTheFormula) {
  for (const std::int64_t cols : {1, 5, 16, 33, 200}) {
    for_every_impl(swiglu_forward_impls(), [&](auto run) {
      Case t(4, cols, DType::kF32);
      run(t.desc, {t.gate_up.view(), t.y.view()});
      const auto exact = forward_f64(t.desc, t.gate_up.values());
      // Each element: exp within 2 steps, four more roundings.
      for (std::size_t i = 0; i < exact.size(); ++i) {
        EXPECT_NEAR(t.y.values()[i], exact[i], 10 * kF32Eps * std::abs(exact[i]));
      }
      Case b(4, cols, DType::kBF16);
      run(b.desc, {b.gate_up.view(), b.y.view()});
      const auto exact_bf16 = forward_f64(b.desc, b.gate_up.values());
      EXPECT_LT(relative_error(b.y.values(), exact_bf16), 1.05 * bf16_rounding_error(exact_bf16) + 10 * kF32Eps);
    });
  }
}

TEST(Swiglu, BackwardIsTheDerivative) {
  for_every_impl(swiglu_backward_impls(), [&](auto run) {
    Case t(3, 21, DType::kF32);
    run(t.desc, {t.grad_y.view(), t.gate_up.view(), t.grad_gate_up.view()});
    const auto expected =
        numeric_gradient(t.gate_up.values(), [&](const auto& x) { return dot(forward_f64(t.desc, x), t.grad_y.values()); });
    EXPECT_LT(relative_error(t.grad_gate_up.values(), expected), 1e-6);
  });
}

TEST(Swiglu, ExtremeGatesStayFinite) {
  for_every_impl(swiglu_forward_impls(), [&](auto run) {
    Case t(1, 6, DType::kF32);
    const double gates[] = {-1000.0, -89.0, -60.0, 0.0, 60.0, 1000.0};
    for (int i = 0; i < 6; ++i) {
      t.gate_up.set(0, i, gates[i]);
      t.gate_up.set(0, 6 + i, 1.0);
    }
    run(t.desc, {t.gate_up.view(), t.y.view()});
    EXPECT_EQ(std::abs(t.y.at(0, 0)), 0.0);
    EXPECT_NEAR(t.y.at(0, 1), 0.0, 1e-30);
    EXPECT_NEAR(t.y.at(0, 2) / (-60.0 * std::exp(-60.0)), 1.0, 1e-5);
    EXPECT_EQ(t.y.at(0, 3), 0.0);
    EXPECT_EQ(t.y.at(0, 5), 1000.0);
    t.gate_up.fill(std::nan(""));
    run(t.desc, {t.gate_up.view(), t.y.view()});
    for (const double y : t.y.values()) EXPECT_TRUE(std::isnan(y));
  });
}

TEST(Swiglu, BackwardMayWorkInPlace) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(swiglu_backward_impls(), [&](auto run) {
      Case t(3, 37, dtype);
      run(t.desc, {t.grad_y.view(), t.gate_up.view(), t.grad_gate_up.view()});
      Case in_place(3, 37, dtype);
      run(in_place.desc, {in_place.grad_y.view(), in_place.gate_up.view(), in_place.gate_up.view()});
      EXPECT_EQ(in_place.gate_up.values(), t.grad_gate_up.values());
    });
  }
}

TEST(Swiglu, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t(100, 700, DType::kBF16);
    const auto device = devices_of_every_isa()[0];
    run_impl(swiglu_forward_impls().front(), t.desc, {t.gate_up.view(), t.y.view()}, device);
    run_impl(swiglu_backward_impls().front(), t.desc, {t.grad_y.view(), t.gate_up.view(), t.grad_gate_up.view()}, device);
    return std::vector<HostTensor>{t.y, t.grad_gate_up};
  });
}

}  // namespace
}  // namespace ida::cpu
