#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "train/bench_quantize.h"
#include "train/op_timer.h"

namespace ida::train {
namespace {

constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kPositions = 2048;

// SwiGLU's width beside a hidden size: that of the preset, else the usual four thirds of double rounded up to 64.
std::int64_t intermediate_size(std::int64_t hidden) {
  if (hidden == 512 || hidden == 576) return 1536;
  if (hidden == 2048) return 8192;
  return (hidden * 8 / 3 + 63) / 64 * 64;
}

std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t bound) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(bounded_at(1, 1, i, static_cast<std::uint64_t>(bound)));
  return ids;
}

double distinct(std::vector<std::int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return static_cast<double>(std::unique(ids.begin(), ids.end()) - ids.begin());
}

// Bytes are counted in f64: sizes of a bench may be large.
struct Pack {
  OpTimer& timer;
  const PackBenchOptions& options;
  DType dtype = options.dtype;
  double element = static_cast<double>(dtype_size_bytes(dtype));
  std::int64_t rows = options.rows;
  double tokens = static_cast<double>(rows);

  double matrix(std::int64_t cols) const { return tokens * static_cast<double>(cols) * element; }

  void rms_norm(std::int64_t cols) const {
    const ops::RmsNormDesc desc{.rows = rows, .cols = cols, .num_groups = 1, .eps = 1e-5f, .dtype = dtype};
    timer.time<ops::RmsNormDesc, ops::RmsNormForwardArgs>(
        "rms_norm_forward", timer.backend().rms_norm_forward, desc, 2.0 * matrix(cols) + 4.0 * tokens, [&](Operands& o) {
          return ops::RmsNormForwardArgs{.x = o.random(dtype, rows, cols),
                                         .w = o.random(dtype, 1, cols),
                                         .y = o.zero(dtype, rows, cols),
                                         .rstd = o.zero(DType::kF32, rows, 1)};
        });
    for (const bool add : {false, true}) {
      timer.time<ops::RmsNormDesc, ops::RmsNormBackwardArgs>(
          add ? "rms_norm_backward + residual" : "rms_norm_backward", timer.backend().rms_norm_backward, desc,
          (add ? 4.0 : 3.0) * matrix(cols) + 4.0 * tokens, [&](Operands& o) {
            return ops::RmsNormBackwardArgs{.grad_y = o.random(dtype, rows, cols),
                                            .x = o.random(dtype, rows, cols),
                                            .w = o.random(dtype, 1, cols),
                                            .rstd = o.random(DType::kF32, rows, 1),
                                            .grad_x = o.random(dtype, rows, cols),
                                            .grad_w = o.zero(DType::kF32, 1, cols),
                                            .add_to_grad_x = add};
          });
    }
  }

  void rope(std::int64_t cols) const {
    if (cols % kHeadDim != 0) return;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i % kPositions);
    const ops::RopeDesc desc{
        .rows = rows, .num_heads = cols / kHeadDim, .head_dim = kHeadDim, .rotary_dim = kHeadDim, .dtype = dtype};
    const double tables = static_cast<double>(std::min(rows, kPositions) * kHeadDim) * 4.0;
    timer.time<ops::RopeDesc, ops::RopeArgs>("rope", timer.backend().rope, desc, 2.0 * matrix(cols) + 4.0 * tokens + tables,
                                             [&](Operands& o) {
                                               return ops::RopeArgs{.x = o.random(dtype, rows, cols),
                                                                    .positions = o.integers(positions),
                                                                    .cos = o.random(DType::kF32, kPositions, kHeadDim / 2),
                                                                    .sin = o.random(DType::kF32, kPositions, kHeadDim / 2)};
                                             });
  }

  void swiglu(std::int64_t cols) const {
    const ops::SwigluDesc desc{.rows = rows, .cols = cols, .dtype = dtype};
    timer.time<ops::SwigluDesc, ops::SwigluForwardArgs>(
        "swiglu_forward", timer.backend().swiglu_forward, desc, 3.0 * matrix(cols), [&](Operands& o) {
          return ops::SwigluForwardArgs{.gate_up = o.random(dtype, rows, 2 * cols), .y = o.zero(dtype, rows, cols)};
        });
    timer.time<ops::SwigluDesc, ops::SwigluBackwardArgs>(
        "swiglu_backward", timer.backend().swiglu_backward, desc, 5.0 * matrix(cols), [&](Operands& o) {
          return ops::SwigluBackwardArgs{.grad_y = o.random(dtype, rows, cols),
                                         .gate_up = o.random(dtype, rows, 2 * cols),
                                         .grad_gate_up = o.zero(dtype, rows, 2 * cols)};
        });
  }

  void cross_entropy(std::int64_t vocab_size) const {
    const ops::CrossEntropyDesc desc{.rows = rows, .vocab_size = vocab_size, .with_gradient = true, .dtype = dtype};
    const std::vector<std::int32_t> labels = random_ids(rows, vocab_size);
    timer.time<ops::CrossEntropyDesc, ops::CrossEntropyArgs>(
        "cross_entropy", timer.backend().cross_entropy, desc, 2.0 * matrix(vocab_size) + 8.0 * tokens, [&](Operands& o) {
          return ops::CrossEntropyArgs{.logits = o.random(dtype, rows, vocab_size),
                                       .labels = o.integers(labels),
                                       .nll = o.zero(DType::kF32, 1, rows)};
        });
  }

  void embedding(std::int64_t cols, std::int64_t vocab_size) const {
    const ops::EmbeddingDesc desc{.rows = rows, .cols = cols, .vocab_size = vocab_size, .dtype = dtype};
    const std::vector<std::int32_t> ids = random_ids(rows, vocab_size);
    timer.time<ops::EmbeddingDesc, ops::EmbeddingForwardArgs>(
        "embedding_forward", timer.backend().embedding_forward, desc, 2.0 * matrix(cols) + 4.0 * tokens, [&](Operands& o) {
          return ops::EmbeddingForwardArgs{
              .ids = o.integers(ids), .table = o.random(dtype, vocab_size, cols), .y = o.zero(dtype, rows, cols)};
        });
    timer.time<ops::EmbeddingDesc, ops::EmbeddingBackwardArgs>(
        "embedding_backward", timer.backend().embedding_backward, desc,
        matrix(cols) + 4.0 * tokens + distinct(ids) * static_cast<double>(cols) * 8.0, [&](Operands& o) {
          return ops::EmbeddingBackwardArgs{.ids = o.integers(ids),
                                            .grad_y = o.random(dtype, rows, cols),
                                            .grad_table = o.zero(DType::kF32, vocab_size, cols)};
        });
  }

  void convert(std::int64_t cols) const {
    const ops::ConvertDesc desc{.rows = rows, .cols = cols, .from = DType::kF32, .to = DType::kBF16};
    timer.time<ops::ConvertDesc, ops::ConvertArgs>(
        "convert", timer.backend().convert, desc, 6.0 * tokens * static_cast<double>(cols), [&](Operands& o) {
          return ops::ConvertArgs{.x = o.random(DType::kF32, rows, cols), .y = o.zero(DType::kBF16, rows, cols)};
        });
  }

  // As many parameters as an activation has elements: square matrices and a vector after each.
  void parameters(std::int64_t cols) const {
    const std::int64_t size = rows * cols;
    std::vector<ops::TensorRange> ranges;
    for (std::int64_t at = 0; at < size;) {
      const bool matrix = ranges.size() % 2 == 0;
      const std::int64_t length = std::min(matrix ? cols * cols : cols, size - at);
      ranges.push_back({.offset = at, .size = length, .decay = matrix ? 1 : 0});
      at += length;
    }
    const std::int64_t blocks = ops::number_blocks(ranges);
    const auto num_tensors = static_cast<std::int64_t>(ranges.size());
    const double elements = static_cast<double>(size);
    const ops::SumSquaresDesc sums{.size = size, .num_tensors = num_tensors, .num_blocks = blocks};
    timer.time<ops::SumSquaresDesc, ops::SumSquaresArgs>(
        "sum_squares", timer.backend().sum_squares, sums, 4.0 * elements, [&](Operands& o) {
          return ops::SumSquaresArgs{.ranges = o.upload(DType::kI64, num_tensors, 4, ranges.data()),
                                     .x = o.random(DType::kF32, 1, size),
                                     .result = o.zero(DType::kF64, 1, num_tensors)};
        });
    for (const auto kind : {ops::OptimizerKind::kAdamW, ops::OptimizerKind::kLion}) {
      const bool adamw = kind == ops::OptimizerKind::kAdamW;
      const ops::OptimizerDesc desc{.kind = kind,
                                    .size = size,
                                    .num_tensors = num_tensors,
                                    .num_blocks = blocks,
                                    .weight_dtype = dtype,
                                    .state_dtype = DType::kF32};
      const double weight = dtype == DType::kF32 ? 0.0 : element;  // an f32 weight is the master
      timer.time<ops::OptimizerDesc, ops::OptimizerArgs>(
          adamw ? "optimizer_step adamw" : "optimizer_step lion", timer.backend().optimizer, desc,
          elements * (4.0 + 8.0 * (adamw ? 3.0 : 2.0) + weight), [&](Operands& o) {
            ops::OptimizerArgs args{.scalars = o.zero(DType::kF32, 1, 8),
                                    .ranges = o.upload(DType::kI64, num_tensors, 4, ranges.data()),
                                    .grad = o.random(DType::kF32, 1, size),
                                    .master = o.random(DType::kF32, 1, size),
                                    .m = o.zero(DType::kF32, 1, size),
                                    .v = {},
                                    .weight = {}};
            const ops::OptimizerScalars scalars{.lr = 1e-6f};
            if (!o.dry()) timer.device().copy_to_device(args.scalars.data, &scalars, sizeof(scalars));
            if (adamw) args.v = o.zero(DType::kF32, 1, size);
            args.weight = dtype == DType::kF32 ? args.master : o.zero(dtype, 1, size);
            return args;
          });
    }
  }
};

}  // namespace

OpBenchResult bench_pack(runtime::Device& device, const ops::Backend& backend, const PackBenchOptions& options) {
  OpTimer timer(device, backend, options.repeats);
  timer.only = options.only;
  timer.measure_copy();
  const Pack pack{timer, options};
  for (const std::int64_t hidden : options.hidden_sizes) {
    pack.rms_norm(hidden);
    pack.rope(hidden);
    pack.swiglu(intermediate_size(hidden));
    pack.embedding(hidden, options.vocab_sizes.back());
    pack.convert(hidden);
  }
  for (const std::int64_t vocab_size : options.vocab_sizes) pack.cross_entropy(vocab_size);
  pack.parameters(options.hidden_sizes.back());
  const std::int64_t hidden = options.hidden_sizes.back();
  if (options.dtype != DType::kBF16) return std::move(timer.result);  // what is quantised is bf16
  for (const std::int64_t cols : {hidden, intermediate_size(hidden)}) bench_quantize(timer, options.rows, cols);
  bench_fused_packs(timer, options.rows, hidden, intermediate_size(hidden));
  return std::move(timer.result);
}

}  // namespace ida::train
