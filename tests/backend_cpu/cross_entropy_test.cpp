#include "backend/cpu/cross_entropy.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::CrossEntropyDesc;

// Sum of the rows' losses, each times its weight.
std::vector<double> nll_f64(const CrossEntropyDesc& desc, const std::vector<double>& logits, const HostTensor& labels) {
  std::vector<double> nll;
  const auto vocab = static_cast<std::size_t>(desc.vocab_size);
  for (std::int64_t row = 0; row < desc.rows; ++row) {
    const double* x = logits.data() + static_cast<std::size_t>(row) * vocab;
    const auto label = static_cast<std::int64_t>(labels.at(0, row));
    double sum = 0.0;
    for (std::size_t c = 0; c < vocab; ++c) sum += std::exp(x[c]);
    nll.push_back(label == ops::kIgnoreLabel ? 0.0 : std::log(sum) - x[label]);
  }
  return nll;
}

struct Case {
  Case(std::int64_t rows, std::int64_t vocab, bool with_gradient, DType dtype, double scale = 3.0)
      : desc{rows, vocab, with_gradient, dtype},
        logits(dtype, rows, vocab, 3),
        labels(DType::kI32, 1, rows),
        nll(DType::kF32, 1, rows) {
    logits.randomize(1, scale);
    for (std::int64_t r = 0; r < rows; ++r) {
      labels.set(0, r,
                 static_cast<double>(bounded_at(1, 2, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(vocab))));
    }
  }
  // `scale` must outlive the call.
  ops::CrossEntropyArgs args(const float& scale) const { return {logits.view(), labels.view(), nll.view(), &scale}; }
  CrossEntropyDesc desc;
  HostTensor logits, labels, nll;
};

TEST(CrossEntropy, LossIsTheFormula) {
  for (const std::int64_t vocab : {1, 2, 17, 1024, 1025, 5000}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for_every_impl(cross_entropy_impls(), [&](auto run) {
        Case t(6, vocab, false, dtype);
        t.labels.set(0, 3, ops::kIgnoreLabel);
        const HostTensor before = t.logits;
        const auto exact = nll_f64(t.desc, t.logits.values(), t.labels);
        run(t.desc, t.args(1.0f));
        // Absolute, relative to the size of log-sum-exp (below 16): the loss is a difference.
        for (std::size_t r = 0; r < exact.size(); ++r) EXPECT_NEAR(t.nll.values()[r], exact[r], 16 * 4 * kF32Eps);
        EXPECT_TRUE(same_bits(t.logits, before)) << "logits are only overwritten with a gradient";
      });
    }
  }
}

TEST(CrossEntropy, GradientIsTheDerivative) {
  for_every_impl(cross_entropy_impls(), [&](auto run) {
    Case t(4, 37, true, DType::kF32);
    t.labels.set(0, 1, ops::kIgnoreLabel);
    const auto expected = numeric_gradient(t.logits.values(), [&](const auto& x) {
      double sum = 0.0;
      for (const double nll : nll_f64(t.desc, x, t.labels)) sum += 0.25 * nll;
      return sum;
    });
    run(t.desc, t.args(0.25f));
    EXPECT_LT(relative_error(t.logits.values(), expected), 1e-6);
    for (std::int64_t c = 0; c < 37; ++c) EXPECT_EQ(t.logits.at(1, c), 0.0);
  });
}

TEST(CrossEntropy, GradientOfALongRow) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(cross_entropy_impls(), [&](auto run) {
      Case t(2, 4099, true, dtype);
      std::vector<double> exact;
      const auto x = t.logits.values();
      const auto nll = nll_f64(t.desc, x, t.labels);
      t.logits.for_each([&](std::int64_t r, std::int64_t c) {
        const auto label = static_cast<std::int64_t>(t.labels.at(0, r));
        const double lse = nll[static_cast<std::size_t>(r)] + x[static_cast<std::size_t>(r * 4099 + label)];
        exact.push_back(std::exp(x[static_cast<std::size_t>(r * 4099 + c)] - lse) - (c == label ? 1.0 : 0.0));
      });
      run(t.desc, t.args(1.0f));
      const double rounding = dtype == DType::kBF16 ? 1.05 * bf16_rounding_error(exact) : 0.0;
      EXPECT_LT(relative_error(t.logits.values(), exact), rounding + 8 * kF32Eps);
    });
  }
}

TEST(CrossEntropy, AllLabelsIgnoredGivesZeroNotNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(cross_entropy_impls(), [&](auto run) {
      Case t(5, 100, true, dtype);
      t.labels.fill(ops::kIgnoreLabel);
      run(t.desc, t.args(std::numeric_limits<float>::infinity()));
      for (const double nll : t.nll.values()) EXPECT_EQ(nll, 0.0);
      for (const double g : t.logits.values()) EXPECT_EQ(g, 0.0);
    });
  }
}

TEST(CrossEntropy, LargeLogitsAndMaskedWordsStayFinite) {
  for_every_impl(cross_entropy_impls(), [&](auto run) {
    Case t(1, 3000, true, DType::kF32);
    t.logits.for_each([&](std::int64_t r, std::int64_t c) {
      t.logits.set(r, c, c < 1500 ? -std::numeric_limits<double>::infinity() : 1e4);
    });
    t.labels.set(0, 0, 2000);
    run(t.desc, t.args(1.0f));
    EXPECT_NEAR(t.nll.at(0, 0), std::log(1500.0), 1e-3);  // one f32 step at 1e4
    EXPECT_EQ(t.logits.at(0, 7), 0.0);
    EXPECT_NEAR(t.logits.at(0, 1600), 1.0 / 1500.0, 1e-9);
    Case bad(1, 3000, true, DType::kF32);
    bad.logits.set(0, 2900, std::nan(""));
    run(bad.desc, bad.args(1.0f));
    EXPECT_TRUE(std::isnan(bad.nll.at(0, 0)));
    EXPECT_TRUE(std::isnan(bad.logits.at(0, 0)));
  });
}

TEST(CrossEntropy, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t(40, 3001, true, DType::kF32);
    run_impl(cross_entropy_impls().front(), t.desc, t.args(0.1f), devices_of_every_isa()[0]);
    return std::vector<HostTensor>{t.logits, t.nll};
  });
}

}  // namespace
}  // namespace ida::cpu
