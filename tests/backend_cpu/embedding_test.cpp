#include "backend/cpu/embedding.h"

#include "op_test_support.h"

namespace ida::cpu {
namespace {

using ops::EmbeddingDesc;

struct Case {
  Case(std::int64_t rows, std::int64_t cols, std::int64_t vocab, DType dtype)
      : desc{rows, cols, vocab, dtype},
        ids(DType::kI32, 1, rows),
        table(dtype, vocab, cols, 1),
        y(dtype, rows, cols, 2),
        grad_y(dtype, rows, cols, 3),
        grad_table(DType::kF32, vocab, cols) {
    for (std::int64_t r = 0; r < rows; ++r) {
      // Every other token is word 3, so that one row of the gradient sums many.
      const std::uint64_t id = bounded_at(1, 1, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(vocab));
      ids.set(0, r, r % 2 == 0 ? 3.0 : static_cast<double>(id));
    }
    table.randomize(2);
    grad_y.randomize(3);
    grad_table.randomize(4);
  }
  EmbeddingDesc desc;
  HostTensor ids, table, y, grad_y, grad_table;
};

TEST(Embedding, ForwardCopiesRows) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(embedding_forward_impls(), [&](auto run) {
      Case t(50, 37, 23, dtype);
      run(t.desc, {t.ids.view(), t.table.view(), t.y.view()});
      t.y.for_each([&](std::int64_t r, std::int64_t c) {
        EXPECT_EQ(t.y.at(r, c), t.table.at(static_cast<std::int64_t>(t.ids.at(0, r)), c));
      });
    });
  }
}

// The lookup is linear: its derivative is the sum over the tokens of each word, on top of what is there.
TEST(Embedding, BackwardIsTheDerivative) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for_every_impl(embedding_backward_impls(), [&](auto run) {
      Case t(60, 41, 23, dtype);
      HostTensor expected = t.grad_table;
      for (std::int64_t word = 0; word < 23; ++word) {
        for (std::int64_t c = 0; c < 41; ++c) {
          float sum = static_cast<float>(expected.at(word, c));  // rows in ascending order, exactly
          for (std::int64_t r = 0; r < 60; ++r) {
            if (t.ids.at(0, r) == static_cast<double>(word)) sum += static_cast<float>(t.grad_y.at(r, c)) * 0.3f;
          }
          expected.set(word, c, static_cast<double>(sum));
        }
      }
      constexpr float kScale = 0.3f;
      run(t.desc, {t.ids.view(), t.grad_y.view(), t.grad_table.view(), &kScale});
      EXPECT_TRUE(same_bits(t.grad_table, expected));
    });
  }
}

TEST(Embedding, DoesNotDependOnThreads) {
  expect_same_bits_whatever_the_threads([] {
    Case t(500, 600, 40, DType::kBF16);
    const auto device = devices_of_every_isa()[0];
    run_impl(embedding_forward_impls().front(), t.desc, {t.ids.view(), t.table.view(), t.y.view()}, device);
    run_impl(embedding_backward_impls().front(), t.desc, {t.ids.view(), t.grad_y.view(), t.grad_table.view()}, device);
    return std::vector<HostTensor>{t.y, t.grad_table};
  });
}

}  // namespace
}  // namespace ida::cpu
