// Runs an attention kernel family on a problem of the CPU tests: matrices as strided slices in device memory, NaN in
// every output, gap and workspace.
#pragma once
#include "backend/cuda/kernels/attention_f32.h"
#include "backend/cuda/kernels/attention_mma.h"
#include "backend_cpu/attention_test_support.h"
#include "device_buffer.h"

namespace ida::cuda {

using cpu::AttentionCase;
using cpu::AttentionShape;
using cpu::HostTensor;

enum class Family { kMma, kF32 };
inline const char* family_name(Family family) { return family == Family::kMma ? "mma" : "f32"; }

// Elements between the end of a row's last slice and the next row. 8 keeps rows on 16 bytes where head_dim allows.
struct DeviceOptions {
  std::int64_t row_gap = 8;
  int num_sms = 3;
};

// Tensors of equally many rows side by side in one buffer, as q | k | v are.
class DeviceSlices {
 public:
  DeviceSlices(const std::vector<const HostTensor*>& tensors, std::int64_t row_gap, bool upload)
      : dtype_(tensors[0]->view().dtype), rows_(tensors[0]->rows()), row_stride_(row_gap) {
    for (const HostTensor* t : tensors) {
      first_cols_.push_back(row_stride_ - row_gap);
      row_stride_ += t->cols();
    }
    HostTensor all(dtype_, rows_, row_stride_);
    for (std::size_t i = 0; upload && i < tensors.size(); ++i) {
      tensors[i]->for_each([&](std::int64_t r, std::int64_t c) { all.set(r, first_cols_[i] + c, tensors[i]->at(r, c)); });
    }
    buffer_ = std::make_unique<DeviceBuffer>(all.bytes());
  }
  template <typename T>
  AttentionMatrix<T> slice(std::size_t i) const {
    return {buffer_->as<T>() + first_cols_[i], row_stride_};
  }
  // Slice i into `tensor`.
  void download(std::size_t i, HostTensor& tensor) const {
    const std::vector<std::byte> bytes = buffer_->download();
    const auto element = static_cast<std::size_t>(dtype_size_bytes(dtype_));
    for (std::int64_t r = 0; r < rows_; ++r) {
      const auto row = static_cast<std::size_t>(r * row_stride_ + first_cols_[i]) * element;
      std::memcpy(
          static_cast<std::byte*>(tensor.view().data) + static_cast<std::size_t>(r * tensor.view().row_stride) * element,
          bytes.data() + row, static_cast<std::size_t>(tensor.cols()) * element);
    }
  }
  // Bytes of the gap behind the last slice, which no kernel may touch.
  void expect_gap_untouched(std::int64_t row_gap) const {
    const std::vector<std::byte> bytes = buffer_->download();
    const auto element = static_cast<std::size_t>(dtype_size_bytes(dtype_));
    for (std::int64_t r = 1; r <= rows_; ++r) {
      const auto end = static_cast<std::size_t>(r * row_stride_) * element;
      for (std::size_t b = end - static_cast<std::size_t>(row_gap) * element; b < end; ++b) {
        ASSERT_EQ(bytes[b], std::byte{0xFF}) << "row " << r - 1 << " was written past its end";
      }
    }
  }

 private:
  DType dtype_;
  std::int64_t rows_;
  std::int64_t row_stride_;
  std::vector<std::int64_t> first_cols_;
  std::unique_ptr<DeviceBuffer> buffer_;
};

inline AttentionProblem problem_of(const ops::AttentionDesc& d) {
  return {d.q_rows,
          d.kv_rows,
          static_cast<int>(d.num_heads),
          static_cast<int>(d.num_kv_heads),
          static_cast<int>(d.head_dim),
          static_cast<int>(d.window),
          d.max_segments,
          d.scale};
}

template <typename T>
void forward_as(Family family, AttentionCase& t, const DeviceOptions& options) {
  const AttentionProblem problem = problem_of(t.desc);
  const DeviceSlices q({&t.q}, options.row_gap, true), kv({&t.k, &t.v}, options.row_gap, true),
      o({&t.o}, options.row_gap, false), lse({&t.lse}, 1, false);
  const DeviceBuffer segments(t.segments.bytes());
  const auto fill = [&](auto args, std::int64_t workspace_bytes, auto run) {
    const DeviceBuffer workspace(static_cast<std::size_t>(workspace_bytes));
    args.problem = problem;
    args.segments = segments.as<AttentionSegment>();
    args.q = q.slice<const T>(0);
    args.k = kv.slice<const T>(0);
    args.v = kv.slice<const T>(1);
    args.o = o.slice<T>(0);
    args.lse = {lse.slice<float>(0).data, lse.slice<float>(0).row_stride};
    args.workspace = workspace.as<void>();
    args.num_sms = options.num_sms;
    ASSERT_EQ(run(args, nullptr), cudaSuccess);
    workspace.download();
  };
  if constexpr (std::is_same_v<T, bf16>) {
    if (family == Family::kMma)
      fill(AttentionForward<bf16>{}, attention_forward_mma_workspace(problem), attention_forward_mma);
  }
  if (family == Family::kF32) {
    fill(AttentionForward<T>{}, attention_forward_f32_workspace(problem), attention_forward_f32<T>);
  }
  o.expect_gap_untouched(options.row_gap);
  o.download(0, t.o);
  lse.download(0, t.lse);
}

template <typename T>
void backward_as(Family family, AttentionCase& t, const DeviceOptions& options) {
  const AttentionProblem problem = problem_of(t.desc);
  const DeviceSlices qkv({&t.q, &t.k, &t.v}, options.row_gap, true), o({&t.o}, options.row_gap, true),
      grad_o({&t.grad_o}, options.row_gap, true), lse({&t.lse}, 1, true),
      grads({&t.grad_q, &t.grad_k, &t.grad_v}, options.row_gap, false);
  const DeviceBuffer segments(t.segments.bytes());
  const auto fill = [&](auto args, std::int64_t workspace_bytes, auto run) {
    const DeviceBuffer workspace(static_cast<std::size_t>(workspace_bytes));
    args.problem = problem;
    args.segments = segments.as<AttentionSegment>();
    args.grad_o = grad_o.slice<const T>(0);
    args.q = qkv.slice<const T>(0);
    args.k = qkv.slice<const T>(1);
    args.v = qkv.slice<const T>(2);
    args.o = o.slice<const T>(0);
    args.lse = {lse.slice<float>(0).data, lse.slice<float>(0).row_stride};
    args.grad_q = grads.slice<T>(0);
    args.grad_k = grads.slice<T>(1);
    args.grad_v = grads.slice<T>(2);
    args.workspace = workspace.as<void>();
    args.num_sms = options.num_sms;
    ASSERT_EQ(run(args, nullptr), cudaSuccess);
    workspace.download();
  };
  if constexpr (std::is_same_v<T, bf16>) {
    if (family == Family::kMma) {
      fill(AttentionBackward<bf16>{}, attention_backward_mma_workspace(problem), attention_backward_mma);
    }
  }
  if (family == Family::kF32) {
    fill(AttentionBackward<T>{}, attention_backward_f32_workspace(problem), attention_backward_f32<T>);
  }
  grads.expect_gap_untouched(options.row_gap);
  grads.download(0, t.grad_q);
  grads.download(1, t.grad_k);
  grads.download(2, t.grad_v);
}

// Fill t.o and t.lse, or t.grad_q, t.grad_k and t.grad_v from t.o and t.lse.
inline void device_forward(Family family, AttentionCase& t, const DeviceOptions& options = {}) {
  t.desc.dtype == DType::kBF16 ? forward_as<bf16>(family, t, options) : forward_as<float>(family, t, options);
}
inline void device_backward(Family family, AttentionCase& t, const DeviceOptions& options = {}) {
  t.desc.dtype == DType::kBF16 ? backward_as<bf16>(family, t, options) : backward_as<float>(family, t, options);
}

}  // namespace ida::cuda
