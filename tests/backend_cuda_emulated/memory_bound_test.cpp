// Memory-bound kernels against the CPU's definitions on the emulated device: few multiprocessors and little shared memory,
// so that blocks take several turns.
#include "backend/cpu/cross_entropy.h"
#include "backend/cpu/rms_norm.h"
#include "backend/cuda/op_impls.h"
#include "backend_cpu/op_test_support.h"

namespace ida::cuda {
namespace {

using cpu::HostTensor;

runtime::DeviceInfo emulated_device() {
  runtime::DeviceInfo device;
  device.backend = runtime::BackendKind::kCuda;
  device.sm = 90;
  device.num_cores = 1;
  device.shared_bytes_per_block = 100 * 1024;
  return device;
}

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
        cpu::run_impl(cpu::cross_entropy_impls().back(), desc, {want.view(), labels.view(), want_nll.view(), 0.25f},
                      cpu::devices_of_every_isa()[0]);
        cpu::run_impl(cross_entropy_impls().front(), desc, {got.view(), labels.view(), got_nll.view(), 0.25f},
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
        HostTensor want_w = HostTensor(DType::kF32, 1, c.cols).randomize(5), got_w = want_w;
        const auto args = [&](const HostTensor& grad_x, const HostTensor& grad_w) {
          return ops::RmsNormBackwardArgs{.grad_y = grad_y.view(),
                                          .x = x.view(),
                                          .w = w.view(),
                                          .rstd = rstd.view(),
                                          .grad_x = grad_x.view(),
                                          .grad_w = grad_w.view(),
                                          .grad_w_scale = 0.5f,
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

}  // namespace
}  // namespace ida::cuda
