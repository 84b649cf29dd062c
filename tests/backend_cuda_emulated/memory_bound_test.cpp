// Memory-bound kernels against the CPU's definitions on the emulated device: few multiprocessors and little shared memory,
// so that blocks take several turns.
#include "backend/cpu/cross_entropy.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/optimizer.h"
#include "backend/cpu/rms_norm.h"
#include "backend/cuda/op_impls.h"
#include "backend_cpu/op_test_support.h"
#include "emulated_device.h"

namespace ida::cuda {
namespace {

using cpu::HostTensor;

double bar(DType dtype) { return dtype == DType::kBF16 ? 1e-3 : 2e-6; }

// Shared memory with 128, 256, 512 and 1024 threads; a row too long for it; rows of no whole vectors.
TEST(CudaMemoryBound, CrossEntropy) {
  struct Case {
    std::int64_t rows, vocab_size, padding;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Case& c : {Case{40, 64, 8},
                          {20, 4096, 0},
                          {8, 12288, 0},
                          {5, 20000, 0},
                          {3, 40000, 0},
                          {3, 60000, 0},
                          {4, 1001, 0},
                          {4, 64, 1},
                          {1, 2, 0}}) {
      for (const bool with_gradient : {false, true}) {
        static constexpr float kScale = 0.25f;
        const ops::CrossEntropyDesc desc{c.rows, c.vocab_size, with_gradient, dtype};
        HostTensor labels(DType::kI32, 1, c.rows);
        for (std::int64_t row = 0; row < c.rows; ++row) {
          const auto bound = static_cast<std::uint64_t>(c.vocab_size);
          const bool ignored = row % 5 == 2 || row % 7 == 3;
          labels.set(
              0, row,
              ignored ? ops::kIgnoreLabel : static_cast<double>(bounded_at(1, 2, static_cast<std::uint64_t>(row), bound)));
        }
        HostTensor want(dtype, c.rows, c.vocab_size, c.padding);
        want.randomize(1, 5.0);
        HostTensor got = want;
        HostTensor want_nll(DType::kF32, 1, c.rows);
        HostTensor got_nll = want_nll;
        cpu::run_impl(cpu::cross_entropy_impls().back(), desc, {want.view(), labels.view(), want_nll.view(), &kScale},
                      cpu::devices_of_every_isa()[0]);
        cpu::run_impl(cross_entropy_impls().front(), desc, {got.view(), labels.view(), got_nll.view(), &kScale},
                      emulated_device());
        EXPECT_LT(cpu::relative_error(got_nll.values(), want_nll.values()), 2e-6) << desc.to_string();
        EXPECT_LT(cpu::relative_error(got.values(), want.values()), bar(dtype)) << desc.to_string();
      }
    }
  }
}

// A warp a row (1 to 3 vectors a lane), rows shared by 2, 4 and 8 warps, rows of no whole vectors; several turns.
TEST(CudaMemoryBound, RmsNorm) {
  struct Case {
    std::int64_t rows, cols, groups, padding;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Case& c : {Case{100, 64, 1, 0},
                          {50, 128, 3, 8},
                          {90, 576, 1, 0},
                          {70, 712, 1, 8},
                          {30, 1024, 1, 0},
                          {40, 2048, 1, 16},
                          {9, 4096, 1, 0},
                          {9, 4104, 1, 0},
                          {3, 77, 1, 1},
                          {1, 2, 1, 0}}) {
      for (const bool add : {false, true}) {
        const std::int64_t width = c.cols * c.groups;
        const ops::RmsNormDesc desc{c.rows, c.cols, c.groups, 1e-5f, dtype};
        const auto matrix = [&](std::uint64_t seed) { return HostTensor(dtype, c.rows, width, c.padding).randomize(seed); };
        HostTensor x = matrix(1), grad_y = matrix(2), want = matrix(3), got = want;
        HostTensor w = HostTensor(dtype, 1, c.cols).randomize(4, 0.1, 1.0);
        HostTensor rstd(DType::kF32, c.rows, c.groups), got_rstd = rstd;
        HostTensor y(dtype, c.rows, width, c.padding), got_y = y;
        const runtime::DeviceInfo host = cpu::devices_of_every_isa()[0];
        cpu::run_impl(cpu::rms_norm_forward_impls().back(), desc, {x.view(), w.view(), y.view(), rstd.view()}, host);
        cpu::run_impl(rms_norm_forward_impls().front(), desc, {x.view(), w.view(), got_y.view(), got_rstd.view()},
                      emulated_device());
        EXPECT_LT(cpu::relative_error(got_y.values(), y.values()), bar(dtype)) << desc.to_string();
        EXPECT_LT(cpu::relative_error(got_rstd.values(), rstd.values()), 1e-6) << desc.to_string();
        static constexpr float kGradWScale = 0.5f;
        HostTensor want_w = HostTensor(DType::kF32, 1, c.cols).randomize(5), got_w = want_w;
        const auto args = [&](const HostTensor& grad_x, const HostTensor& grad_w) {
          return ops::RmsNormBackwardArgs{.grad_y = grad_y.view(),
                                          .x = x.view(),
                                          .w = w.view(),
                                          .rstd = rstd.view(),
                                          .grad_x = grad_x.view(),
                                          .grad_w = grad_w.view(),
                                          .grad_w_scale = &kGradWScale,
                                          .add_to_grad_x = add};
        };
        cpu::run_impl(cpu::rms_norm_backward_impls().back(), desc, args(want, want_w), host);
        cpu::run_impl(rms_norm_backward_impls().front(), desc, args(got, got_w), emulated_device());
        EXPECT_LT(cpu::relative_error(got.values(), want.values()), bar(dtype)) << desc.to_string();
        EXPECT_LT(cpu::relative_error(got_w.values(), want_w.values()), 5e-6) << desc.to_string();
      }
    }
  }
}

// Up to 1,100 tensors of one flat buffer: of odd sizes, some empty, some off the 16-byte grid, gaps between them.
struct Tensors {
  explicit Tensors(std::int64_t count) {
    std::vector<ops::TensorRange> list;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t length = i % 11 == 5 ? 0 : i == 2 ? 3 * ops::kRangeBlock + 5 : 9 + i % 7;
      list.push_back({.offset = size, .size = length, .decay = i % 2});
      size += length + (i % 3 == 0 ? 0 : 4 - length % 4);
    }
    num_blocks = ops::number_blocks(list);
    table = HostTensor(DType::kI64, count, 4);
    std::memcpy(table.view().data, list.data(), list.size() * sizeof(list[0]));
  }
  std::int64_t size = 0;
  std::int64_t num_blocks = 0;
  HostTensor table;
};

TEST(CudaMemoryBound, SumSquaresOfManyTensors) {
  for (const std::int64_t count : {1, 2, 32, 33, 1100}) {
    const Tensors tensors(count);
    const ops::SumSquaresDesc desc{tensors.size, count, tensors.num_blocks};
    const HostTensor x = HostTensor(DType::kF32, 1, tensors.size).randomize(1);
    HostTensor want(DType::kF64, 1, count), got = want;
    cpu::run_impl(cpu::sum_squares_impls().back(), desc, {tensors.table.view(), x.view(), want.view()},
                  cpu::devices_of_every_isa()[0]);
    cpu::run_impl(sum_squares_impls().front(), desc, {tensors.table.view(), x.view(), got.view()}, emulated_device());
    for (std::int64_t t = 0; t < count; ++t) EXPECT_NEAR(got.at(0, t), want.at(0, t), 1e-12 * want.at(0, t)) << t;
  }
}

TEST(CudaMemoryBound, OptimizerHasTheBitsOfTheDefinition) {
  for (const auto kind : {ops::OptimizerKind::kAdamW, ops::OptimizerKind::kLion}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t count : {1, 3, 100}) {
        const Tensors tensors(count);
        const ops::OptimizerDesc desc{kind, tensors.size, count, tensors.num_blocks, dtype, dtype};
        HostTensor scalars(DType::kF32, 1, 8);
        scalars.assign({1e-3, 0.9, 0.95, 1e-8, 0.1, 0.05, 0.7, 0.1});
        const auto flat = [&](DType type, std::uint64_t seed, double mean) {
          return HostTensor(type, 1, tensors.size).randomize(seed, 0.1, mean);
        };
        const HostTensor grad = flat(DType::kF32, 1, 0.0);
        struct {
          HostTensor master, m, v, weight;
        } want{flat(DType::kF32, 2, 0.0), flat(dtype, 3, 0.0), flat(dtype, 4, 1.0), HostTensor(dtype, 1, tensors.size)};
        auto got = want;
        const auto args = [&](const auto& t) {
          return ops::OptimizerArgs{scalars.view(), tensors.table.view(), grad.view(),    t.master.view(),
                                    t.m.view(),     t.v.view(),           t.weight.view()};
        };
        cpu::run_impl(cpu::optimizer_impls().back(), desc, args(want), cpu::devices_of_every_isa()[0]);
        cpu::run_impl(optimizer_impls().front(), desc, args(got), emulated_device());
        EXPECT_TRUE(cpu::same_bits(got.master, want.master) && cpu::same_bits(got.m, want.m) &&
                    cpu::same_bits(got.v, want.v) && cpu::same_bits(got.weight, want.weight))
            << desc.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda
