// An attention problem on the device as the decoder lays it out: q, k, v in one fused buffer, their gradients in another,
// everything an op must write pre-filled with NaN.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/attention_cudnn.h"
#include "backend/cuda/attention_cudnn_problem.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_stream.h"
#include "backend_cpu/attention_test_support.h"

namespace ida::cuda {

using cpu::AttentionCase;
using cpu::HostTensor;

// Device memory, every byte 0xFF: NaN in f32 and bf16.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
    check(cudaMalloc(&data_, size_), "cudaMalloc");
    poison();
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void poison() { check(cudaMemset(data_, 0xFF, size_), "cudaMemset"); }
  void upload(const void* host, std::size_t size) {
    check(cudaMemcpy(data_, host, size, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<std::byte> download() const {
    std::vector<std::byte> host(size_);
    check(cudaMemcpy(host.data(), data_, size_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

inline void upload(const TensorView& to, const HostTensor& from) {
  const TensorView host = from.view();
  const auto element = static_cast<std::size_t>(dtype_size_bytes(host.dtype));
  check(cudaMemcpy2D(to.data, static_cast<std::size_t>(to.row_stride) * element, host.data,
                     static_cast<std::size_t>(host.row_stride) * element, static_cast<std::size_t>(host.cols) * element,
                     static_cast<std::size_t>(host.rows), cudaMemcpyHostToDevice),
        "cudaMemcpy2D");
}

inline HostTensor download(const TensorView& from) {
  HostTensor host(from.dtype, from.rows, from.cols);
  const auto element = static_cast<std::size_t>(dtype_size_bytes(from.dtype));
  check(cudaMemcpy2D(host.view().data, static_cast<std::size_t>(from.cols) * element, from.data,
                     static_cast<std::size_t>(from.row_stride) * element, static_cast<std::size_t>(from.cols) * element,
                     static_cast<std::size_t>(from.rows), cudaMemcpyDeviceToHost),
        "cudaMemcpy2D");
  return host;
}

// Memory of one problem.
class DeviceProblem {
 public:
  explicit DeviceProblem(const ops::AttentionDesc& problem)
      : desc(problem),
        q_cols_(problem.num_heads * problem.head_dim),
        kv_cols_(problem.num_kv_heads * problem.head_dim),
        fused_(q_cols_ + 2 * kv_cols_),
        qkv_(2 * problem.q_rows * fused_),
        grads_(2 * problem.q_rows * fused_),
        o_(2 * problem.q_rows * q_cols_),
        grad_o_(2 * problem.q_rows * q_cols_),
        lse_(4 * problem.q_rows * problem.num_heads),
        table_(16 * problem.max_segments),
        workspace_(
            std::max(cudnn_attention_forward_workspace(problem, {}), cudnn_attention_backward_workspace(problem, {})) +
            kGuardBytes) {}

  void set_inputs(const AttentionCase& host) {
    upload(part(qkv_, 0, q_cols_), host.q);
    upload(part(qkv_, q_cols_, kv_cols_), host.k);
    upload(part(qkv_, q_cols_ + kv_cols_, kv_cols_), host.v);
    upload(matrix_view(grad_o_.data(), DType::kBF16, desc.q_rows, q_cols_), host.grad_o);
    std::vector<ops::Segment> table;
    for (std::int64_t i = 0; i < desc.max_segments; ++i) table.push_back(host.segment(i));
    set_table(table);
  }
  void set_table(const std::vector<ops::Segment>& table) {
    table_.upload(table.data(), table.size() * sizeof(ops::Segment));
    finish_uploads();
  }
  // Inputs for timing: one block of values after another.
  void repeat_inputs(const HostTensor& block) {
    for (DeviceBuffer* buffer : {&qkv_, &grad_o_}) {
      for (std::size_t at = 0; at < buffer->size(); at += block.bytes().size()) {
        check(cudaMemcpy(buffer->data() + at, block.bytes().data(), std::min(block.bytes().size(), buffer->size() - at),
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
      }
    }
    finish_uploads();
  }

  ops::AttentionForwardArgs forward_args() const {
    return {.q = part(qkv_, 0, q_cols_),
            .k = part(qkv_, q_cols_, kv_cols_),
            .v = part(qkv_, q_cols_ + kv_cols_, kv_cols_),
            .segments = matrix_view(table_.data(), DType::kI32, desc.max_segments, 4),
            .o = matrix_view(o_.data(), DType::kBF16, desc.q_rows, q_cols_),
            .lse = matrix_view(lse_.data(), DType::kF32, desc.q_rows, desc.num_heads)};
  }
  ops::AttentionBackwardArgs backward_args() const {
    const ops::AttentionForwardArgs f = forward_args();
    return {.grad_o = matrix_view(grad_o_.data(), DType::kBF16, desc.q_rows, q_cols_),
            .q = f.q,
            .k = f.k,
            .v = f.v,
            .o = f.o,
            .lse = f.lse,
            .segments = f.segments,
            .grad_q = part(grads_, 0, q_cols_),
            .grad_k = part(grads_, q_cols_, kv_cols_),
            .grad_v = part(grads_, q_cols_ + kv_cols_, kv_cols_)};
  }

  void run_forward(CudnnAttention& attention, cudaStream_t stream) {
    attention.forward(desc, forward_args(), exact(cudnn_attention_forward_workspace(desc, {})), stream);
  }
  void run_backward(CudnnAttention& attention, cudaStream_t stream) {
    attention.backward(desc, backward_args(), exact(cudnn_attention_backward_workspace(desc, {})), stream);
  }
  // What lies behind the workspace of the larger pass is as it was.
  void expect_guard_untouched() const {
    const std::vector<std::byte> bytes = workspace_.download();
    for (std::size_t i = bytes.size() - kGuardBytes; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], std::byte{0xFF}) << "wrote past the workspace";
    }
  }
  std::vector<std::byte> gradient_bytes() const { return grads_.download(); }

  ops::AttentionDesc desc;

 private:
  static constexpr std::int64_t kGuardBytes = 1 << 16;
  // The tests' stream does not wait for the default one.
  static void finish_uploads() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  TensorView part(const DeviceBuffer& buffer, std::int64_t first_col, std::int64_t cols) const {
    return TensorView{buffer.data(), DType::kBF16, desc.q_rows, fused_, fused_}.col_slice(first_col, cols);
  }
  std::span<std::byte> exact(std::int64_t size) const { return {workspace_.data(), static_cast<std::size_t>(size)}; }

  std::int64_t q_cols_, kv_cols_, fused_;
  DeviceBuffer qkv_, grads_, o_, grad_o_, lse_, table_, workspace_;
};

class CudnnAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaSearch search = detect_cuda();
    if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
    if (search.device->sm != 90) GTEST_SKIP() << "not an sm_90 device";
    if (cudnn() == nullptr) GTEST_SKIP() << "no cuDNN: " << cudnn_search_report();
    attention_ = std::make_unique<CudnnAttention>(*cudnn());
    queue_ = std::make_unique<CudaQueue>(search.device->device_index);
    stream_ = queue_->stream();
  }
  void synchronize() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  std::unique_ptr<CudnnAttention> attention_;
  std::unique_ptr<CudaQueue> queue_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace ida::cuda
