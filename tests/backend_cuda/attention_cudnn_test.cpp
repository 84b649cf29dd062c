// cuDNN's attention on the GPU against the CPU's, which its own tests tie to the formula. Skipped without an sm_90 device.
#include <gtest/gtest.h>

#include <cstdio>

#include "attention_cudnn_support.h"
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
Expected expected_of(const AttentionCase& narrow, const std::vector<std::int64_t>& lengths, std::int64_t gap) {
  const ops::AttentionDesc& d = narrow.desc;
  AttentionCase wide({d.num_heads, d.num_kv_heads, d.head_dim, d.window, DType::kF32}, lengths, gap);
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
  std::int64_t window = 0;
};

struct Packing {
  std::vector<std::int64_t> lengths;
  std::int64_t gap = 0;
  std::int64_t documents = 0;  // rows of the table that the plan looks at; 0: uniform
  std::int64_t max_len = 0;
};

AttentionCase host_case(const Shape& s, const Packing& p) {
  return AttentionCase({s.num_heads, s.num_kv_heads, s.head_dim, s.window, DType::kBF16}, p.lengths, p.gap);
}

ops::AttentionDesc promised(ops::AttentionDesc desc, const Packing& p) {
  desc.uniform = p.documents == 0;
  desc.max_documents = p.documents;
  desc.max_document_len = p.max_len;
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

// Rows in no document are zero in every output, bit for bit.
void expect_zero_outside(const DeviceProblem& device, const AttentionCase& host) {
  std::vector<bool> covered(static_cast<std::size_t>(host.desc.q_rows));
  for (std::int64_t s = 0; s < host.desc.max_segments; ++s) {
    const ops::Segment segment = host.segment(s);
    for (std::int32_t i = 0; i < segment.q_len; ++i) covered[static_cast<std::size_t>(segment.q_begin + i)] = true;
  }
  const ops::AttentionBackwardArgs b = device.backward_args();
  for (const TensorView& view : {b.o, b.lse, b.grad_q, b.grad_k, b.grad_v}) {
    const HostTensor values = download(view);
    for (std::int64_t row = 0; row < view.rows; ++row) {
      if (covered[static_cast<std::size_t>(row)]) continue;
      for (std::int64_t col = 0; col < view.cols; ++col) ASSERT_EQ(values.at(row, col), 0.0) << row << ", " << col;
    }
  }
}

class CudnnAttentionNumbers : public CudnnAttentionTest {
 protected:
  void expect_agrees(const Shape& shape, const Packing& packing) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads << " head_dim " << shape.head_dim
                                      << " window " << shape.window << " documents " << packing.documents << " of "
                                      << packing.max_len << " gap " << packing.gap);
    std::printf("%ld:%ld head_dim %ld window %ld, %s, longest %ld, gap %ld\n", static_cast<long>(shape.num_heads),
                static_cast<long>(shape.num_kv_heads), static_cast<long>(shape.head_dim), static_cast<long>(shape.window),
                packing.documents == 0 ? "uniform" : "packed", static_cast<long>(packing.max_len),
                static_cast<long>(packing.gap));
    const AttentionCase host = host_case(shape, packing);
    DeviceProblem device(promised(host.desc, packing), packing.documents == 0 ? host.desc.max_segments : packing.documents);
    device.set_inputs(host);
    device.run_forward(*attention_, stream_);
    device.run_backward(*attention_, stream_);
    synchronize();
    expect_outputs(device, expected_of(host, packing.lengths, packing.gap));
    expect_zero_outside(device, host);
    device.expect_guard_untouched();
  }
};

TEST_F(CudnnAttentionNumbers, Uniform) {
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{9, 3, 128}, Shape{4, 4, 64}, Shape{4, 4, 128}}) {
    for (const std::int64_t len : {128, 1000}) expect_agrees(shape, {.lengths = {len, len, len}, .max_len = len});
    expect_agrees(shape, {.lengths = {2048}, .max_len = 2048});
  }
}

TEST_F(CudnnAttentionNumbers, UniformAwkward) {
  for (const std::int64_t len : {2, 127, 129, 192}) {
    expect_agrees({9, 3, 64}, {.lengths = {len, len}, .max_len = len});
  }
  for (const std::int64_t head_dim : {8, 72, 96, 256}) {
    expect_agrees({4, 2, head_dim}, {.lengths = {300, 300}, .max_len = 300});
  }
}

// Packed documents and windows are refused (attention_cudnn_problem.cpp): on an H200 with 9.19 some of the disabled tests
// below fail, with wrong gradients or an illegal instruction. They stay as what must pass before that refusal goes.
TEST_F(CudnnAttentionNumbers, DISABLED_Packed) {
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{9, 3, 128}, Shape{4, 4, 64}, Shape{4, 4, 128}}) {
    expect_agrees(shape, {.lengths = {700, 1, 128, 1000, 219}, .documents = 16, .max_len = 2048});
    expect_agrees(shape, {.lengths = {129, 0, 2, 65, 0, 0, 300}, .gap = 3, .documents = 8, .max_len = 512});
    expect_agrees(shape, {.lengths = {2048}, .documents = 64, .max_len = 2048});
  }
}

// Empty documents before, between and after others.
TEST_F(CudnnAttentionNumbers, DISABLED_EmptyDocuments) {
  for (const std::int64_t head_dim : {64, 256}) {
    expect_agrees({4, 2, head_dim}, {.lengths = {0, 1208, 0, 840, 0}, .documents = 8, .max_len = 2048});
  }
}

// lse below -88.7, where exp(-lse) leaves f32: what a tile holds past the end of a document must be masked first.
TEST_F(CudnnAttentionNumbers, VeryNegativeScores) {
  for (const std::int64_t documents : {0}) {
    const Packing packing = {.lengths = {192, 192}, .documents = documents, .max_len = 192};
    AttentionCase host = host_case({2, 2, 64}, packing);
    host.q.for_each([&](std::int64_t row, std::int64_t col) {
      host.q.set(row, col, col % 64 == 0 ? 1.0 : 0.1 * host.q.at(row, col));
      host.k.set(row, col, col % 64 == 0 ? -120.0 * 8.0 : 0.1 * host.k.at(row, col));
    });
    DeviceProblem device(promised(host.desc, packing), documents == 0 ? host.desc.max_segments : documents);
    device.set_inputs(host);
    device.run_forward(*attention_, stream_);
    device.run_backward(*attention_, stream_);
    synchronize();
    const ops::AttentionBackwardArgs b = device.backward_args();
    for (const TensorView& view : {b.o, b.lse, b.grad_q, b.grad_k, b.grad_v}) {
      for (const double x : download(view).values())
        ASSERT_TRUE(std::isfinite(x)) << (documents == 0 ? "uniform" : "packed");
    }
    const Expected expected = expected_of(host, packing.lengths, 0);
    expect_close("o", b.o, expected.o, kTolO);
    expect_close("grad_v", b.grad_v, expected.grad_v, kTolGradV);
  }
}

// Other values in one document change no bit of another's output.
TEST_F(CudnnAttentionNumbers, DISABLED_DocumentsDoNotSeeEachOther) {
  const Packing packing = {.lengths = {300, 500, 200}, .documents = 8, .max_len = 1024};
  AttentionCase host = host_case({4, 2, 64}, packing);
  DeviceProblem device(promised(host.desc, packing), 8);
  const auto second_document = [&] {
    device.set_inputs(host);
    device.run_forward(*attention_, stream_);
    synchronize();
    const ops::AttentionForwardArgs f = device.forward_args();
    return std::pair{download(f.o.row_slice(300, 500)).bytes(), download(f.lse.row_slice(300, 500)).bytes()};
  };
  const auto before = second_document();
  for (HostTensor* input : {&host.q, &host.k, &host.v}) {
    input->for_each([&](std::int64_t row, std::int64_t col) {
      if (row < 300 || row >= 800) input->set(row, col, 3.0 * input->at(row, col) + 1.0);
    });
  }
  EXPECT_TRUE(second_document() == before);
}

TEST_F(CudnnAttentionNumbers, DISABLED_Window) {
  expect_agrees({9, 3, 64, 100}, {.lengths = {1000, 1000}, .max_len = 1000});
  expect_agrees({9, 3, 64, 100}, {.lengths = {700, 1, 128, 1000}, .documents = 16, .max_len = 1000});
}

// Inputs of rows in no document are not looked at.
TEST_F(CudnnAttentionNumbers, DISABLED_NaNBetweenDocuments) {
  const Packing packing = {.lengths = {129, 65, 300}, .gap = 40, .documents = 8, .max_len = 512};
  AttentionCase host = host_case({4, 2, 64}, packing);
  const Expected expected = expected_of(host, packing.lengths, packing.gap);
  std::vector<bool> covered(static_cast<std::size_t>(host.desc.q_rows));
  for (std::int64_t s = 0; s < 3; ++s) {
    const ops::Segment segment = host.segment(s);
    for (std::int32_t i = 0; i < segment.q_len; ++i) covered[static_cast<std::size_t>(segment.q_begin + i)] = true;
  }
  for (HostTensor* input : {&host.q, &host.k, &host.v, &host.grad_o}) {
    input->for_each([&](std::int64_t row, std::int64_t col) {
      if (!covered[static_cast<std::size_t>(row)]) input->set(row, col, std::numeric_limits<double>::quiet_NaN());
    });
  }
  DeviceProblem device(promised(host.desc, packing), packing.documents);
  device.set_inputs(host);
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  synchronize();
  expect_outputs(device, expected);
  expect_zero_outside(device, host);
}

// One captured graph serves every table with the promised bounds.
TEST_F(CudnnAttentionNumbers, DISABLED_GraphOutlivesItsDocuments) {
  const Shape shape = {9, 3, 64};
  const std::vector<Packing> packings = {{.lengths = {700, 100, 200}, .documents = 8, .max_len = 1024},
                                         {.lengths = {1000}, .documents = 8, .max_len = 1024},
                                         {.lengths = {1, 2, 3, 400, 94, 500}, .documents = 8, .max_len = 1024}};
  DeviceProblem device(promised(host_case(shape, packings[0]).desc, packings[0]), 8);
  device.set_inputs(host_case(shape, packings[0]));
  device.run_forward(*attention_, stream_);  // plans are built outside of capture
  device.run_backward(*attention_, stream_);
  synchronize();

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (const Packing& packing : packings) {
    const AttentionCase host = host_case(shape, packing);
    device.poison_outputs();
    device.set_inputs(host);
    check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
    synchronize();
    expect_outputs(device, expected_of(host, packing.lengths, 0));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(CudnnAttentionNumbers, DeterministicBackwardHasTheSameBits) {
  const Packing packing = {.lengths = std::vector<std::int64_t>(8, 1024), .max_len = 1024};
  const AttentionCase host = host_case({9, 3, 64}, packing);
  ops::AttentionDesc desc = promised(host.desc, packing);
  desc.deterministic = true;
  DeviceProblem device(desc, host.desc.max_segments);
  device.set_inputs(host);
  device.run_forward(*attention_, stream_);
  device.run_backward(*attention_, stream_);
  synchronize();
  expect_outputs(device, expected_of(host, packing.lengths, 0));
  const std::vector<std::byte> first = device.gradient_bytes();
  for (int repeat = 0; repeat < 30; ++repeat) {
    device.run_backward(*attention_, stream_);
    synchronize();
    ASSERT_TRUE(device.gradient_bytes() == first) << "run " << repeat;
  }
}

// What the library launches, by CUPTI; also shows that the window sees its kernels and ours.
TEST_F(CudnnAttentionNumbers, DISABLED_KernelsOfAWindow) {
  const Packing packing = {.lengths = {700, 100}, .documents = 8, .max_len = 1024};
  const AttentionCase host = host_case({9, 3, 64}, packing);
  DeviceProblem device(promised(host.desc, packing), 8);
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
  EXPECT_EQ(counts.at("ida::cuda::document_offsets").launches, 6);
  EXPECT_EQ(counts.at("ida::cuda::settle_rows").launches, 6);
}

}  // namespace
}  // namespace ida::cuda
