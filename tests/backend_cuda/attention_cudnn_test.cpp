// cuDNN's attention on the GPU against the CPU's, which its own tests tie to the formula. Skipped without an sm_90 device.
#include <gtest/gtest.h>

#include <cstdio>

#include "attention_cudnn_support.h"
#include "backend/cuda/cupti_api.h"
#include "backend/cuda/kernel_window.h"

namespace ida::cuda {
namespace {

// Relative errors (norm of the difference over the norm) in steps of bf16 rounding, 2^-9. Rounded once each: o: p and o;
// grad_v: p and grad_v, with groups every head's before their sum; grad_q, grad_k: ds and the result, over a difference
// (dP - rowsum(dO o)) that cancels and whose o was rounded.
constexpr double kStep = 0x1.0p-9;
constexpr double kTolO = 2 * kStep;
constexpr double kTolLse = 1e-5;  // f32 sums of products that are exact in f32
constexpr double kTolGradV = 3 * kStep;
constexpr double kTolGradQk = 5 * kStep;

struct Expected {
  HostTensor o, lse, grad_q, grad_k, grad_v;
};

// The CPU in f32 on the values that bf16 holds.
Expected expected_of(const AttentionCase& narrow, const std::vector<std::int64_t>& lengths) {
  const ops::AttentionDesc& d = narrow.desc;
  AttentionCase wide({d.num_heads, d.num_kv_heads, d.head_dim, d.window, DType::kF32}, lengths, 0);
  wide.q.assign(narrow.q.values());
  wide.k.assign(narrow.k.values());
  wide.v.assign(narrow.v.values());
  wide.grad_o.assign(narrow.grad_o.values());
  const runtime::DeviceInfo device = cpu::devices_of_every_isa()[0];
  cpu::run_impl(cpu::attention_forward_impls().front(), wide.desc, wide.forward(), device);
  cpu::run_impl(cpu::attention_backward_impls().front(), wide.desc, wide.backward(), device);
  return {wide.o, wide.lse, wide.grad_q, wide.grad_k, wide.grad_v};
}

struct Shape {
  std::int64_t num_heads, num_kv_heads, head_dim;
};

using Lengths = std::vector<std::int64_t>;  // of documents, all equal

AttentionCase host_case(const Shape& s, const Lengths& lengths) {
  return AttentionCase({s.num_heads, s.num_kv_heads, s.head_dim, 0, DType::kBF16}, lengths, 0);
}

ops::AttentionDesc promised(ops::AttentionDesc desc, const Lengths& lengths) {
  desc.uniform_document_len = lengths.front();
  return desc;
}

void expect_close(const char* what, const TensorView& got, const HostTensor& expected, double tolerance) {
  const double error = cpu::relative_error(download(got).values(), expected.values());
  std::printf("  %-6s relative error %.2e (at most %.2e)\n", what, error, tolerance);
  EXPECT_LT(error, tolerance) << what;
}

void expect_outputs(const DeviceProblem& device, const Expected& expected) {
  const ops::AttentionBackwardArgs b = device.backward_args();
  expect_close("o", b.o, expected.o, kTolO);
  expect_close("lse", b.lse, expected.lse, kTolLse);
  expect_close("grad_v", b.grad_v, expected.grad_v, kTolGradV);
  expect_close("grad_k", b.grad_k, expected.grad_k, kTolGradQk);
  expect_close("grad_q", b.grad_q, expected.grad_q, kTolGradQk);
}

class CudnnAttentionNumbers : public CudnnAttentionTest {
 protected:
  void expect_agrees(const Shape& shape, const Lengths& lengths) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads << " head_dim " << shape.head_dim
                                      << " length " << lengths.front());
    std::printf("%ld:%ld head_dim %ld, %ld documents of %ld\n", static_cast<long>(shape.num_heads),
                static_cast<long>(shape.num_kv_heads), static_cast<long>(shape.head_dim), static_cast<long>(lengths.size()),
                static_cast<long>(lengths.front()));
    const AttentionCase host = host_case(shape, lengths);
    DeviceProblem device(promised(host.desc, lengths));
    device.set_inputs(host);
    device.run_forward(*attention_, stream_);
    device.run_backward(*attention_, stream_);
    synchronize();
    expect_outputs(device, expected_of(host, lengths));
    device.expect_guard_untouched();
  }
};

TEST_F(CudnnAttentionNumbers, Uniform) {
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{9, 3, 128}, Shape{4, 4, 64}, Shape{4, 4, 128}}) {
    for (const std::int64_t len : {128, 1000}) expect_agrees(shape, {len, len, len});
    expect_agrees(shape, {2048});
  }
}

TEST_F(CudnnAttentionNumbers, UniformAwkward) {
  for (const std::int64_t len : {2, 127, 129, 192}) expect_agrees({9, 3, 64}, {len, len});
  for (const std::int64_t head_dim : {8, 72, 96, 256}) expect_agrees({4, 2, head_dim}, {300, 300});
}

// lse below -88.7, where exp(-lse) leaves f32: what a tile holds past the end of a document must be masked first.
TEST_F(CudnnAttentionNumbers, VeryNegativeScores) {
  const Lengths lengths = {192, 192};
  AttentionCase host = host_case({2, 2, 64}, lengths);
  host.q.for_each([&](std::int64_t row, std::int64_t col) {
    host.q.set(row, col, col % 64 == 0 ? 1.0 : 0.1 * host.q.at(row, col));
    host.k.set(row, col, col % 64 == 0 ? -120.0 * 8.0 : 0.1 * host.k.at(row, col));
  });
  DeviceProblem device(promised(host.desc, lengths));
  device.set_inputs(host);
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  synchronize();
  const ops::AttentionBackwardArgs b = device.backward_args();
  for (const TensorView& view : {b.o, b.lse, b.grad_q, b.grad_k, b.grad_v}) {
    for (const double x : download(view).values()) ASSERT_TRUE(std::isfinite(x));
  }
  const Expected expected = expected_of(host, lengths);
  expect_close("o", b.o, expected.o, kTolO);
  expect_close("grad_v", b.grad_v, expected.grad_v, kTolGradV);
}

TEST_F(CudnnAttentionNumbers, DeterministicBackwardHasTheSameBits) {
  const Lengths lengths(8, 1024);
  const AttentionCase host = host_case({9, 3, 64}, lengths);
  ops::AttentionDesc desc = promised(host.desc, lengths);
  desc.deterministic = true;
  DeviceProblem device(desc);
  device.set_inputs(host);
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  synchronize();
  expect_outputs(device, expected_of(host, lengths));
  const std::vector<std::byte> first = device.gradient_bytes();
  for (int repeat = 0; repeat < 30; ++repeat) {
    device.run_backward(*attention_, stream_);
    synchronize();
    ASSERT_TRUE(device.gradient_bytes() == first) << "run " << repeat;
  }
}

// What the library launches, by CUPTI; also shows that the window sees its kernels and ours.
TEST_F(CudnnAttentionNumbers, KernelsOfAWindow) {
  if (cupti() == nullptr) GTEST_SKIP() << "no CUPTI: " << cupti_search_report();
  const Lengths lengths = {512, 512};
  const AttentionCase host = host_case({9, 3, 64}, lengths);
  DeviceProblem device(promised(host.desc, lengths));
  device.set_inputs(host);
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  synchronize();
  KernelWindow window;
  window.start();
  for (int i = 0; i < 3; ++i) {
    device.run_forward(*attention_, stream_);
    device.run_backward(*attention_, stream_);
  }
  synchronize();
  const runtime::KernelTotals counts = window.stop();
  for (const auto& [name, total] : counts) std::printf("  %4ld x %s\n", static_cast<long>(total.launches), name.c_str());
  EXPECT_EQ(counts.at("ida::cuda::transpose_f32").launches, 6);
  EXPECT_GT(counts.size(), 1u) << "the library's kernels are missing";
}

}  // namespace
}  // namespace ida::cuda
