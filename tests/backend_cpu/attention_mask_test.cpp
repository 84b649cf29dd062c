// Who sees whom: packing, windows, groups of heads, caches.
#include "attention_test_support.h"

namespace ida::cpu {
namespace {

void run_both(const auto& device, AttentionCase& t) {
  run_impl(attention_forward_impls().front(), t.desc, t.forward(), device);
  run_impl(attention_backward_impls().front(), t.desc, t.backward(), device);
}

// Copies a document's rows of q, k, v and grad_o from one case to another.
void copy_document(const AttentionCase& from, std::int64_t from_begin, AttentionCase& to, std::int64_t to_begin,
                   std::int64_t length) {
  const auto copy = [&](const HostTensor& a, HostTensor& b) {
    for (std::int64_t r = 0; r < length; ++r) {
      for (std::int64_t c = 0; c < a.cols(); ++c) b.set(to_begin + r, c, a.at(from_begin + r, c));
    }
  };
  copy(from.q, to.q);
  copy(from.k, to.k);
  copy(from.v, to.v);
  copy(from.grad_o, to.grad_o);
}

void expect_same_rows(const AttentionCase& a, std::int64_t a_begin, const AttentionCase& b, std::int64_t b_begin,
                      std::int64_t length) {
  const auto compare = [&](const HostTensor& x, const HostTensor& y, const char* what) {
    for (std::int64_t r = 0; r < length; ++r) {
      for (std::int64_t c = 0; c < x.cols(); ++c)
        ASSERT_EQ(x.at(a_begin + r, c), y.at(b_begin + r, c)) << what << " row " << r;
    }
  };
  compare(a.o, b.o, "o");
  compare(a.lse, b.lse, "lse");
  compare(a.grad_q, b.grad_q, "grad_q");
  compare(a.grad_k, b.grad_k, "grad_k");
  compare(a.grad_v, b.grad_v, "grad_v");
}

TEST(AttentionMask, ADocumentDoesNotDependOnWhatItIsPackedWith) {
  for (const auto& device : devices_of_every_isa()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t window : {0, 30}) {
        for (const std::int64_t length : {1, 2, 65, 129}) {
          const AttentionShape shape{4, 2, 20, window, dtype};
          AttentionCase packed(shape, {37, length, 64});
          AttentionCase alone(shape, {length});
          copy_document(packed, 37, alone, 0, length);
          run_both(device, packed);
          run_both(device, alone);
          expect_same_rows(packed, 37, alone, 0, length);
        }
      }
    }
  }
}

TEST(AttentionMask, ChangingOneDocumentLeavesTheOthersAlone) {
  for (const auto& device : devices_of_every_isa()) {
    AttentionCase before({4, 2, 16, 0, DType::kF32}, {40, 70, 40});
    AttentionCase after = before;
    for (std::int64_t r = 40; r < 110; ++r) {
      for (HostTensor* x : {&after.q, &after.k, &after.v, &after.grad_o}) x->set(r, 3, std::nan(""));
    }
    run_both(device, before);
    run_both(device, after);
    expect_same_rows(before, 0, after, 0, 40);
    expect_same_rows(before, 110, after, 110, 40);
  }
}

TEST(AttentionMask, RowsInNoSegmentAndEmptySegmentsAreZero) {
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({2, 1, 8, 0, DType::kBF16}, {5, 0, 3}, 2);
    run(t.desc, t.forward());
    for (const std::int64_t row : {0, 1, 7, 8, 9, 10}) {
      for (std::int64_t c = 0; c < 16; ++c) EXPECT_EQ(t.o.at(row, c), 0.0) << row;
    }
  });
  for_every_impl(attention_backward_impls(), [&](auto run) {
    AttentionCase t({2, 1, 8, 0, DType::kBF16}, {5, 0, 3}, 2);
    run_impl(attention_forward_impls().back(), t.desc, t.forward(), devices_of_every_isa()[0]);
    run(t.desc, t.backward());
    for (const HostTensor* x : {&t.grad_q, &t.grad_k, &t.grad_v}) {
      for (std::int64_t c = 0; c < x->cols(); ++c) EXPECT_EQ(x->at(8, c), 0.0);
      for (const double value : x->values()) EXPECT_TRUE(std::isfinite(value));
    }
  });
}

// With values that are one-hot in the key index, o shows the visible keys themselves.
TEST(AttentionMask, WindowIncludesSelfAndExcludesTheKeyAWindowBack) {
  constexpr std::int64_t kLength = 12;
  constexpr std::int64_t kWindow = 4;
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({1, 1, 16, kWindow, DType::kF32}, {kLength});
    t.v.for_each([&](std::int64_t r, std::int64_t c) { t.v.set(r, c, r == c ? 1.0 : 0.0); });
    run(t.desc, t.forward());
    for (std::int64_t i = 0; i < kLength; ++i) {
      for (std::int64_t j = 0; j < kLength; ++j) EXPECT_EQ(t.o.at(i, j) > 0.0, j <= i && j > i - kWindow) << i << " " << j;
    }
  });
}

TEST(AttentionMask, QueryHeadsReadTheirOwnKeyHead) {
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({6, 2, 16, 0, DType::kF32}, {3});
    t.v.for_each([&](std::int64_t r, std::int64_t c) { t.v.set(r, c, c < 16 ? 1.0 : 2.0); });
    run(t.desc, t.forward());
    t.o.for_each([&](std::int64_t r, std::int64_t c) {
      EXPECT_NEAR(t.o.at(r, c), c / 16 < 3 ? 1.0 : 2.0, 1e-6) << "heads 0-2 read key head 0, 3-5 key head 1";
    });
  });
}

TEST(AttentionMask, SwappingQueriesAndKeysIsNoticed) {
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({2, 2, 16, 0, DType::kF32}, {20});
    AttentionCase swapped = t;
    swapped.q.assign(t.k.values());
    swapped.k.assign(t.q.values());
    run(t.desc, t.forward());
    run(swapped.desc, swapped.forward());
    EXPECT_GT(relative_error(swapped.o.values(), t.o.values()), 0.1);
  });
}

// ---- key/value cache ----

TEST(AttentionMask, QueriesAgainstACacheAreTheFormula) {
  for (const std::int64_t q_len : {1, 2, 5, 70}) {
    for (const std::int64_t window : {0, 7}) {
      for_every_impl(attention_forward_impls(), [&](auto run) {
        AttentionCase t({4, 2, 20, window, DType::kF32}, q_len, {70, 129, 200}, 210, true);
        t.lse = HostTensor();
        auto args = t.forward();
        args.lse = {};
        for (std::int64_t i = 0; i < 3; ++i) {  // what lies beyond a sequence's keys is never read
          for (std::int64_t r = t.segment(i).kv_begin + t.segment(i).kv_len; r < (i + 1) * 210; ++r) {
            for (std::int64_t c = 0; c < 40; ++c) {
              t.k.set(r, c, std::nan(""));
              t.v.set(r, c, std::nan(""));
            }
          }
        }
        run(t.desc, args);
        EXPECT_LT(relative_error(t.o.values(), attention_f64(t).o), 5e-7) << q_len;
      });
    }
  }
}

TEST(AttentionMask, DecodingOneByOneGivesTheBitsOfTheFullPass) {
  for (const auto& device : devices_of_every_isa()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t window : {0, 50}) {
        const AttentionShape shape{4, 2, 20, window, dtype};
        constexpr std::int64_t kLength = 140;
        AttentionCase full(shape, {kLength});
        run_impl(attention_forward_impls().front(), full.desc, full.forward(), device);
        for (const std::int64_t position : {0, 1, 2, 48, 49, 50, 51, 62, 63, 64, 65, 100, 112, 113, 127, 128, 139}) {
          AttentionCase step(shape, 1, {position + 1}, kLength, true);
          step.k = full.k;
          step.v = full.v;
          for (std::int64_t c = 0; c < full.q.cols(); ++c) step.q.set(0, c, full.q.at(position, c));
          run_impl(attention_forward_impls().front(), step.desc, step.forward(), device);
          for (std::int64_t c = 0; c < full.o.cols(); ++c) ASSERT_EQ(step.o.at(0, c), full.o.at(position, c)) << position;
          for (std::int64_t h = 0; h < 4; ++h) ASSERT_EQ(step.lse.at(0, h), full.lse.at(position, h)) << position;
        }
      }
    }
  }
}

TEST(AttentionMask, MoreQueriesThanKeysIsFinite) {
  for_every_impl(attention_forward_impls(), [&](auto run) {
    AttentionCase t({2, 1, 8, 0, DType::kF32}, 3, {1, 0}, 4, true);
    run(t.desc, t.forward());
    EXPECT_LT(relative_error(t.o.values(), attention_f64(t).o), 5e-7);
  });
}

TEST(AttentionMask, BlockedFormRefusesWideHeads) {
  ops::AttentionDesc desc;
  desc.num_heads = desc.num_kv_heads = 1;
  desc.head_dim = 512;
  EXPECT_EQ(attention_forward_impls().front().supports(desc, {}).kind, ops::RefusalKind::kShape);
  EXPECT_FALSE(attention_forward_impls().back().supports(desc, {}));
  EXPECT_FALSE(attention_backward_impls().back().supports(desc, {}));
}

}  // namespace
}  // namespace ida::cpu
