// Times of cuDNN's attention at the shapes of the speed table, deterministic and not. Prints; nothing is asserted beyond
// that the problems run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "attention_cudnn_support.h"
#include "backend/cuda/cuda_event.h"

namespace ida::cuda {
namespace {

class CudnnAttentionTiming : public CudnnAttentionTest {
 protected:
  CudnnAttentionTiming() : block_(DType::kBF16, 1, std::int64_t{1} << 20) { block_.randomize(1); }

  // Median of 20 in ms.
  template <typename Body>
  double milliseconds(Body&& body) {
    constexpr int kRepeats = 20;
    CudaEvent begin(queue_->device());
    CudaEvent end(queue_->device());
    for (int i = 0; i < 3; ++i) body();
    std::vector<double> times;
    for (int i = 0; i < kRepeats; ++i) {
      begin.record(*queue_);
      body();
      end.record(*queue_);
      end.synchronize();
      times.push_back(end.ms_since(begin));
    }
    std::sort(times.begin(), times.end());
    return times[kRepeats / 2];
  }

  struct Row {
    const char* name;
    std::int64_t batch, len, heads, kv_heads, head_dim;
  };
  void report(const Row& row, bool deterministic) {
    const auto& [name, batch, len, heads, kv_heads, head_dim] = row;
    ops::AttentionDesc desc;
    desc.q_rows = desc.kv_rows = batch * len;
    desc.num_heads = heads;
    desc.num_kv_heads = kv_heads;
    desc.head_dim = head_dim;
    desc.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    desc.dtype = DType::kBF16;
    desc.uniform_document_len = len;
    desc.max_segments = batch;
    desc.deterministic = deterministic;
    DeviceProblem device(desc);
    std::vector<ops::Segment> table;
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto length = static_cast<std::int32_t>(len);
      const auto begin = static_cast<std::int32_t>(i) * length;
      table.push_back({begin, length, begin, length});
    }
    device.set_table(table);
    device.repeat_inputs(block_);
    const double forward_ms = milliseconds([&] { device.run_forward(*attention_, stream_); });
    const double backward_ms = milliseconds([&] { device.run_backward(*attention_, stream_); });
    const double pairs = static_cast<double>(batch) * 0.5 * static_cast<double>(len) * static_cast<double>(len);
    const double forward_flops = 4.0 * pairs * static_cast<double>(heads * head_dim);
    std::printf("%-14s %-3s | fwd %7.3f ms %5.0f TFLOP/s | bwd %7.3f ms %5.0f TFLOP/s | bwd workspace %5.0f MiB\n", name,
                deterministic ? "det" : "", forward_ms, forward_flops / forward_ms * 1e-9, backward_ms,
                2.5 * forward_flops / backward_ms * 1e-9,
                static_cast<double>(cudnn_attention_backward_workspace(device.desc, {})) / 1048576.0);
  }

  HostTensor block_;  // normal values that fill the inputs again and again
};

TEST_F(CudnnAttentionTiming, Table) {
  for (const Row& row : {Row{"SmolLM2-1.7B", 8, 2048, 32, 32, 64}, Row{"SmolLM2-135M", 16, 2048, 9, 3, 64},
                         Row{"ember-30m", 64, 1024, 8, 8, 64}, Row{"D128 GQA", 8, 2048, 16, 4, 128}}) {
    report(row, false);
    report(row, true);
  }
}

}  // namespace
}  // namespace ida::cuda
