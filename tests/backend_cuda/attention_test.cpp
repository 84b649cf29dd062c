// Attention kernels against the CPU definition. The same source runs on a device and, with the emulated runtime, on the
// host; emulated lists of shapes are shorter (IDA_CUDA_EMULATED).
#include <algorithm>
#include <memory>

#include "attention_device.h"
#include "attention_rounded.h"

namespace ida::cuda {
namespace {

#ifdef IDA_CUDA_EMULATED
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

// Chains of head_dim and of up to 1000 terms in f32 and expf: measured far below; the bar is the project's for f32.
constexpr double kF32Tolerance = 1e-5;
// bf16: the error of the rounded reference times this, DESIGN's bar for bf16 on CUDA. A kernel rounds P and dS at the
// same places but P before division by the row's final sum and with another maximum, hence not 1.
constexpr double kBf16Ratio = 1.5;
// Elements of gradients that cancel to nothing (a query that sees one key): what is left of f32 roundings of values
// near 1.
constexpr double kCancelled = 2e-5;

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_present()) GTEST_SKIP() << "no CUDA device";
  }
};

double norm(const std::vector<double>& x) { return std::sqrt(cpu::dot(x, x)); }

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : std::sqrt(sum);
}

AttentionCase widened(const AttentionCase& t) {
  AttentionCase wide = t;
  wide.desc.dtype = DType::kF32;
  for (HostTensor AttentionCase::*member :
       {&AttentionCase::q, &AttentionCase::k, &AttentionCase::v, &AttentionCase::grad_o, &AttentionCase::o,
        &AttentionCase::grad_q, &AttentionCase::grad_k, &AttentionCase::grad_v}) {
    const HostTensor& narrow = t.*member;
    wide.*member = HostTensor(DType::kF32, narrow.rows(), narrow.cols());
    (wide.*member).assign(narrow.values());
  }
  return wide;
}

void define_forward(AttentionCase& t) {
  cpu::run_impl(cpu::attention_forward_impls().back(), t.desc, t.forward(), cpu::devices_of_every_isa()[0]);
}
void define_backward(AttentionCase& t) {
  cpu::run_impl(cpu::attention_backward_impls().back(), t.desc, t.backward(), cpu::devices_of_every_isa()[0]);
}

// `reference`: the rounded form of the same values for bf16, empty for f32.
void expect_close(const HostTensor& got, const HostTensor& exact, const std::vector<double>& reference, bool cancels,
                  const char* what) {
  const std::vector<double> values = exact.values();
  const double floor = cancels ? kCancelled * std::sqrt(static_cast<double>(values.size())) : 0.0;
  const double allowed =
      kF32Tolerance * norm(values) + floor + (reference.empty() ? 0.0 : kBf16Ratio * distance(reference, values));
  EXPECT_LE(distance(got.values(), values), allowed) << what << ", norm " << norm(values);
}

void expect_same_lse(const HostTensor& got, const HostTensor& exact) {
  got.for_each([&](std::int64_t r, std::int64_t c) {
    const double a = got.at(r, c), b = exact.at(r, c);
    // Scores up to about 30, their f32 chains, log2 to 2^-22.
    if (a != b) {
      ASSERT_NEAR(a, b, 2e-5) << "lse of row " << r << ", head " << c;
    }
  });
}

void expect_forward(Family family, AttentionCase t, const DeviceOptions& options = {}) {
  SCOPED_TRACE(std::string(family_name(family)) + " " + t.desc.to_string());
  const bool bf16 = t.desc.dtype == DType::kBF16;
  AttentionCase exact = widened(t);
  define_forward(exact);
  device_forward(family, t, options);
  expect_close(t.o, exact.o, bf16 ? rounded_forward(t) : std::vector<double>{}, false, "o");
  expect_same_lse(t.lse, exact.lse);
}

void expect_backward(Family family, AttentionCase t, const DeviceOptions& options = {}) {
  SCOPED_TRACE(std::string(family_name(family)) + " " + t.desc.to_string());
  const bool bf16 = t.desc.dtype == DType::kBF16;
  define_forward(t);
  AttentionCase exact = widened(t);
  define_backward(exact);
  device_backward(family, t, options);
  const RoundedGrads reference = bf16 ? rounded_backward(t) : RoundedGrads{};
  const bool cancels = true;  // the first query of every segment sees one key
  expect_close(t.grad_q, exact.grad_q, reference.q, cancels, "grad_q");
  expect_close(t.grad_k, exact.grad_k, reference.k, cancels, "grad_k");
  expect_close(t.grad_v, exact.grad_v, reference.v, false, "grad_v");
}

struct FamilyType {
  Family family;
  DType dtype;
};
constexpr FamilyType kEveryFamily[] = {
    {Family::kMma, DType::kBF16}, {Family::kF32, DType::kF32}, {Family::kF32, DType::kBF16}};

void expect_both(const AttentionShape& shape, const std::vector<std::int64_t>& lengths, std::int64_t gap,
                 const DeviceOptions& options = {}) {
  for (const FamilyType& f : kEveryFamily) {
    AttentionShape typed = shape;
    typed.dtype = f.dtype;
    const AttentionCase t(typed, lengths, gap);
    expect_forward(f.family, t, options);
    expect_backward(f.family, t, options);
  }
}

// ---- shapes ----

TEST_F(CudaAttention, EveryHeadDim) {
  for (const std::int64_t head_dim : {2, 32, 48, 64, 80, 96, 128, 192, 256}) {
    expect_both({kEmulated ? 1 : 2, 1, head_dim}, {head_dim > 128 ? 70 : 129, 1}, 1);
  }
}

TEST_F(CudaAttention, HeadDimsThatForbidWideLoads) {
  for (const std::int64_t head_dim : {6, 66, 250}) expect_both({2, 1, head_dim}, {70, 3}, 0, {2, 3});
  expect_both({2, 1, 64}, {70}, 0, {2, 3});  // rows off 16 bytes
}

TEST_F(CudaAttention, OddHeadDimsInF32) {
  for (const std::int64_t head_dim : {1, 3, 65, 255}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const AttentionCase t({2, 1, head_dim, 0, dtype}, {40, 3}, 1);
      expect_forward(Family::kF32, t);
      expect_backward(Family::kF32, t);
    }
  }
}

TEST_F(CudaAttention, AwkwardLengths) {
  for (const std::int64_t length : {1, 2, 127, 128, 129}) expect_both({2, 2, 64}, {length}, 0);
  expect_both({1, 1, 64}, {kEmulated ? 200 : 1000}, 0);
  if (kEmulated) return;
  expect_both({2, 1, 128}, {1000}, 0);
  expect_both({2, 1, 96}, {1000}, 0);
}

TEST_F(CudaAttention, GroupsOfHeads) {
  expect_both({4, 1, 64}, {130}, 0);
  expect_both({9, 3, 64}, {kEmulated ? 40 : 200, 5}, 2);
  expect_both({3, 3, 32}, {70}, 0);
  expect_both({4, 1, 192}, {40, 33}, 0);
}

TEST_F(CudaAttention, Windows) {
  for (const std::int64_t window : {1, 17, 128}) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      if (kEmulated && head_dim == 256 && window == 128) continue;
      expect_both({kEmulated ? 1 : 2, 1, head_dim, window}, {kEmulated ? 150 : 400, 18, 17, 1}, 1);
    }
  }
}

TEST_F(CudaAttention, ManyDocuments) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 40; ++i) lengths.push_back((i * 7) % 30);  // some of them empty
  expect_both({2, 1, 32}, lengths, 0);
  expect_both({2, 1, 64}, {100, 0, 57}, 3);
}

TEST_F(CudaAttention, MostOfTheTableUnused) {
  for (const FamilyType& f : kEveryFamily) {
    AttentionCase t({2, 1, 32, 0, f.dtype}, {30, 40}, 2);
    HostTensor table(DType::kI32, 10000, 4);
    table.fill(0.0);
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t c = 0; c < 4; ++c) table.set(i * 6000 + 77, c, t.segments.at(i, c));
    }
    t.segments = table;
    t.desc.max_segments = 10000;
    expect_forward(f.family, t);
    expect_backward(f.family, t);
  }
}

TEST_F(CudaAttention, NoSegmentAtAllGivesZeros) {
  for (const FamilyType& f : kEveryFamily) {
    AttentionCase t({2, 1, 32, 0, f.dtype}, {0}, 20);
    device_forward(f.family, t);
    device_backward(f.family, t);
    for (const HostTensor* x : {&t.o, &t.lse, &t.grad_q, &t.grad_k, &t.grad_v}) {
      for (const double value : x->values()) ASSERT_EQ(value, 0.0);
    }
  }
}

// ---- key/value cache ----

TEST_F(CudaAttention, QueriesAgainstACache) {
  for (const FamilyType& f : kEveryFamily) {
    for (const std::int64_t window : {0, 17}) {
      expect_forward(f.family, AttentionCase({4, 1, 64, window, f.dtype}, 1, {500, 1, 129}, 500, true));
      expect_forward(f.family, AttentionCase({3, 3, 128, window, f.dtype}, 5, {70, 5}, 80, true));
      expect_forward(f.family,
                     AttentionCase({2, 1, 32, window, f.dtype}, 3, {1, 0, 7}, 8, true));  // more queries than keys
    }
  }
}

TEST_F(CudaAttention, DecodingOneByOneGivesTheBitsOfTheFullPass) {
  constexpr std::int64_t kLength = 140;
  for (const FamilyType& f : kEveryFamily) {
    for (const std::int64_t window : {0, 50}) {
      const AttentionShape shape{2, 1, 64, window, f.dtype};
      AttentionCase full(shape, {kLength});
      device_forward(f.family, full);
      for (const std::int64_t position : {0, 31, 32, 63, 64, 100, 127, 128, 139}) {
        AttentionCase step(shape, 1, {position + 1}, kLength, true);
        step.k = full.k;
        step.v = full.v;
        for (std::int64_t c = 0; c < full.q.cols(); ++c) step.q.set(0, c, full.q.at(position, c));
        device_forward(f.family, step);
        for (std::int64_t c = 0; c < full.o.cols(); ++c) ASSERT_EQ(step.o.at(0, c), full.o.at(position, c)) << position;
      }
    }
  }
}

// ---- what must not change results ----

bool same_results(const AttentionCase& a, const AttentionCase& b) {
  return cpu::same_bits(a.o, b.o) && cpu::same_bits(a.lse, b.lse) && cpu::same_bits(a.grad_q, b.grad_q) &&
         cpu::same_bits(a.grad_k, b.grad_k) && cpu::same_bits(a.grad_v, b.grad_v);
}

TEST_F(CudaAttention, SameBitsAgainAndOnAnyGrid) {
  for (const FamilyType& f : kEveryFamily) {
    const AttentionCase problem({kEmulated ? 2 : 6, 1, 64, 0, f.dtype}, {150, 33}, 1);
    AttentionCase first = problem;
    device_forward(f.family, first);
    device_backward(f.family, first);
    for (const int num_sms : {3, 1, kEmulated ? 20 : 132}) {
      AttentionCase again = problem;
      device_forward(f.family, again, {8, num_sms});
      device_backward(f.family, again, {8, num_sms});
      EXPECT_TRUE(same_results(first, again)) << family_name(f.family) << ", " << num_sms;
    }
  }
}

TEST_F(CudaAttention, ADocumentDoesNotDependOnWhatItIsPackedWith) {
  for (const FamilyType& f : kEveryFamily) {
    const AttentionShape shape{2, 1, 64, 30, f.dtype};
    AttentionCase packed(shape, {37, 130, 64});
    AttentionCase alone(shape, {130});
    const auto copy = [&](const HostTensor& from, HostTensor& to) {
      to.for_each([&](std::int64_t r, std::int64_t c) { to.set(r, c, from.at(37 + r, c)); });
    };
    copy(packed.q, alone.q);
    copy(packed.k, alone.k);
    copy(packed.v, alone.v);
    copy(packed.grad_o, alone.grad_o);
    for (AttentionCase* t : {&packed, &alone}) {
      device_forward(f.family, *t);
      device_backward(f.family, *t);
    }
    const auto expect_same = [&](const HostTensor& a, const HostTensor& b, const char* what) {
      b.for_each([&](std::int64_t r, std::int64_t c) { ASSERT_EQ(a.at(37 + r, c), b.at(r, c)) << what << " row " << r; });
    };
    expect_same(packed.o, alone.o, "o");
    expect_same(packed.grad_q, alone.grad_q, "grad_q");
    expect_same(packed.grad_k, alone.grad_k, "grad_k");
    expect_same(packed.grad_v, alone.grad_v, "grad_v");
  }
}

TEST_F(CudaAttention, ChangingOneDocumentLeavesTheOthersAlone) {
  for (const FamilyType& f : kEveryFamily) {
    AttentionCase before({2, 1, 64, 0, f.dtype}, {40, 70, 40});
    AttentionCase after = before;
    for (std::int64_t r = 40; r < 110; ++r) {
      for (HostTensor* x : {&after.q, &after.k, &after.v, &after.grad_o}) x->set(r, 3, std::nan(""));
    }
    for (AttentionCase* t : {&before, &after}) {
      device_forward(f.family, *t);
      device_backward(f.family, *t);
    }
    for (HostTensor AttentionCase::*member :
         {&AttentionCase::o, &AttentionCase::grad_q, &AttentionCase::grad_k, &AttentionCase::grad_v}) {
      (before.*member).for_each([&](std::int64_t r, std::int64_t c) {
        if (r < 40 || r >= 110) {
          ASSERT_EQ((before.*member).at(r, c), (after.*member).at(r, c)) << "row " << r;
        }
      });
    }
  }
}

TEST_F(CudaAttention, LargeScoresStayFinite) {
  for (const FamilyType& f : kEveryFamily) {
    AttentionCase t({1, 1, 64, 0, f.dtype}, {90});
    t.q.randomize(1, 30.0);
    t.k.randomize(2, 30.0);
    device_forward(f.family, t);
    device_backward(f.family, t);
    for (const HostTensor* x : {&t.o, &t.lse, &t.grad_q, &t.grad_k, &t.grad_v}) {
      for (const double value : x->values()) ASSERT_TRUE(std::isfinite(value)) << family_name(f.family);
    }
  }
}

}  // namespace
}  // namespace ida::cuda
