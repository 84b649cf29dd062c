#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/presets.h"
#include "train/op_timer.h"

namespace ida::train {
namespace {

struct Problem {
  std::int64_t num_heads, num_kv_heads, head_dim, seq_len, documents, window;
};

// Pairs that causality and the window let through, of one document.
double pairs(std::int64_t length, std::int64_t window) {
  const std::int64_t full = window == 0 ? length : std::min(length, window);  // rows that see all before them
  return 0.5 * static_cast<double>(full) * static_cast<double>(full + 1) +
         static_cast<double>(length - full) * static_cast<double>(full);
}

class AttentionBench {
 public:
  AttentionBench(OpTimer& timer, const AttentionBenchOptions& options) : timer_(timer), options_(options) {}

  void time(const Problem& p) {
    const std::int64_t length = p.seq_len / p.documents;
    const std::int64_t rows = options_.tokens / p.seq_len * p.seq_len;
    const std::int64_t num_documents = rows / length;
    std::vector<ops::Segment> segments;
    for (std::int64_t d = 0; d < num_documents; ++d) {
      const auto begin = static_cast<std::int32_t>(d * length);
      const auto size = static_cast<std::int32_t>(length);
      segments.push_back({.q_begin = begin, .q_len = size, .kv_begin = begin, .kv_len = size});
    }
    const ops::AttentionDesc desc{.q_rows = rows,
                                  .kv_rows = rows,
                                  .num_heads = p.num_heads,
                                  .num_kv_heads = p.num_kv_heads,
                                  .head_dim = p.head_dim,
                                  .window = p.window,
                                  .max_segments = num_documents,
                                  .scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim)),
                                  .dtype = options_.dtype,
                                  .uniform_document_len = length * num_documents == rows ? length : 0};
    const double flop = static_cast<double>(num_documents * p.num_heads * p.head_dim) * pairs(length, p.window);
    const std::string name = fmt::format("{} documents of {}", num_documents, length);
    timer_.time<ops::AttentionDesc, ops::AttentionForwardArgs>(
        "attention_forward, " + name, timer_.backend().attention_forward, desc, 4.0 * flop,
        [&](Operands& o) { return forward_args(o, p, rows, segments); });
    timer_.time<ops::AttentionDesc, ops::AttentionBackwardArgs>(
        "attention_backward, " + name, timer_.backend().attention_backward, desc, 10.0 * flop,
        [&](Operands& o) {
          const ops::AttentionForwardArgs f = forward_args(o, p, rows, segments);
          const TensorView grads = o.zero(options_.dtype, rows, qkv_cols(p));
          const std::int64_t q_cols = p.num_heads * p.head_dim;
          const std::int64_t kv_cols = p.num_kv_heads * p.head_dim;
          return ops::AttentionBackwardArgs{.grad_o = o.random(options_.dtype, rows, q_cols),
                                            .q = f.q,
                                            .k = f.k,
                                            .v = f.v,
                                            .o = f.o,
                                            .lse = f.lse,
                                            .segments = f.segments,
                                            .grad_q = grads.col_slice(0, q_cols),
                                            .grad_k = grads.col_slice(q_cols, kv_cols),
                                            .grad_v = grads.col_slice(q_cols + kv_cols, kv_cols)};
        },
        [&](const ops::AttentionBackwardArgs& b) { run_forward(desc, b); });
  }

 private:
  static std::int64_t qkv_cols(const Problem& p) { return (p.num_heads + 2 * p.num_kv_heads) * p.head_dim; }

  // q, k and v side by side, as the decoder has them.
  ops::AttentionForwardArgs forward_args(Operands& o, const Problem& p, std::int64_t rows,
                                         const std::vector<ops::Segment>& segments) const {
    const TensorView qkv = o.random(options_.dtype, rows, qkv_cols(p));
    const std::int64_t q_cols = p.num_heads * p.head_dim;
    const std::int64_t kv_cols = p.num_kv_heads * p.head_dim;
    return {.q = qkv.col_slice(0, q_cols),
            .k = qkv.col_slice(q_cols, kv_cols),
            .v = qkv.col_slice(q_cols + kv_cols, kv_cols),
            .segments = o.upload(DType::kI32, static_cast<std::int64_t>(segments.size()), 4, segments.data()),
            .o = o.zero(options_.dtype, rows, q_cols),
            .lse = o.zero(DType::kF32, rows, p.num_heads)};
  }

  // Outputs and sums that belong to the inputs, by the first implementation that takes the problem.
  void run_forward(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& b) const {
    runtime::Device& device = timer_.device();
    const auto& impl = ops::choose(timer_.backend().attention_forward, desc, device.info(), "attention_forward");
    const std::int64_t bytes = impl.workspace_bytes ? impl.workspace_bytes(desc, device.info()) : 0;
    void* workspace = device.allocate(std::max<std::int64_t>(bytes, 1));
    impl.run(desc, {.q = b.q, .k = b.k, .v = b.v, .segments = b.segments, .o = b.o, .lse = b.lse},
             {device.info(), {static_cast<std::byte*>(workspace), static_cast<std::size_t>(bytes)}, device.queue()});
    device.synchronize();
    device.release(workspace, std::max<std::int64_t>(bytes, 1));
  }

  OpTimer& timer_;
  const AttentionBenchOptions& options_;
};

}  // namespace

OpBenchResult bench_attention(runtime::Device& device, const ops::Backend& backend, const AttentionBenchOptions& options) {
  OpTimer timer(device, backend, options.repeats);
  timer.measure_square_product(options.dtype);
  AttentionBench bench(timer, options);
  for (const std::int64_t seq_len : options.seq_lens) {
    if (seq_len > options.tokens) fail_usage("[bench] a row of {} tokens in a call of {}", seq_len, options.tokens);
    for (const char* preset : {"ember-30m", "smollm2-135m", "smollm2-1.7b"}) {
      const config::ModelSettings& model = config::find_preset(preset)->model;
      for (const std::int64_t head_dim : options.head_dims) {
        Problem p{.num_heads = *model.num_attention_heads,
                  .num_kv_heads = *model.num_key_value_heads,
                  .head_dim = head_dim,
                  .seq_len = seq_len,
                  .documents = 1,
                  .window = 0};
        for (const std::int64_t documents : options.documents) {
          if (documents > seq_len) fail_usage("[bench] {} documents do not fit in a row of {} tokens", documents, seq_len);
          p.documents = documents;
          bench.time(p);
        }
        if (options.window == 0) continue;
        p.documents = 1;
        p.window = options.window;
        bench.time(p);
      }
    }
  }
  return std::move(timer.result);
}

}  // namespace ida::train
