// What the graphs that cuDNN gets mean: run by an interpreter, forward is the formula and backward the CPU's gradient.
#include "backend/cuda/attention_cudnn_graph.h"

#include <gtest/gtest.h>

#include "backend/cuda/attention_cudnn_problem.h"
#include "backend_cpu/attention_test_support.h"
#include "eager_graph.h"

namespace ida::cuda {
namespace {

using cpu::AttentionCase;
using cpu::HostTensor;
using enum AttentionTensor;

constexpr double kExact = 1e-6;     // f64 against f32 storage
constexpr double kGradient = 1e-5;  // against f32 arithmetic

struct Documents {
  std::vector<std::int64_t> lengths;
  std::int64_t gap = 0;
  std::int64_t slots = 0;  // of a packed plan; 0: uniform
  std::int64_t max_len = 0;
};

// A matrix and what lies between its rows.
std::vector<double> cells_of(const HostTensor& tensor) {
  const TensorView view = tensor.view();
  std::vector<double> cells(static_cast<std::size_t>(view.rows * view.row_stride), std::nan(""));
  tensor.for_each(
      [&](std::int64_t r, std::int64_t c) { cells[static_cast<std::size_t>(r * view.row_stride + c)] = tensor.at(r, c); });
  return cells;
}

std::vector<double> rows_of(const std::vector<double>& cells, std::int64_t cols, std::int64_t stride) {
  std::vector<double> values;
  for (std::int64_t begin = 0; begin + cols <= static_cast<std::int64_t>(cells.size()); begin += stride) {
    values.insert(values.end(), cells.begin() + begin, cells.begin() + begin + cols);
  }
  return values;
}

class GraphRun {
 public:
  GraphRun(const cpu::AttentionShape& shape, const Documents& documents)
      : host_(shape, documents.lengths, documents.gap), documents_(documents) {
    const auto device = cpu::devices_of_every_isa()[0];
    cpu::run_impl(cpu::attention_forward_impls().back(), host_.desc, host_.forward(), device);
    cpu::run_impl(cpu::attention_backward_impls().back(), host_.desc, host_.backward(), device);
    desc_ = host_.desc;
    desc_.uniform = documents.slots == 0;
    desc_.max_documents = documents.slots;
    desc_.max_document_len = documents.max_len;
    put(kQ, cells_of(host_.q));
    put(kK, cells_of(host_.k));
    put(kV, cells_of(host_.v));
    put(kScale, {static_cast<double>(desc_.scale)});
    put(kMasked, {-std::numeric_limits<double>::infinity()});
    put(kWindow, {static_cast<double>(desc_.window)});
    put(kOne, {1.0});
  }

  void expect_forward() {
    const AttentionGraphShape shape = forward_graph_shape(desc_, host_.forward());
    put_offsets(shape, false);
    put(kO, nan(desc_.q_rows * shape.o_stride));
    put(kLse, nan(desc_.q_rows * desc_.num_heads));
    build_attention_forward(graph_, shape);
    EXPECT_LT(error_in_documents(rows_of(get(kO), q_cols(), shape.o_stride), host_.o), kExact);
    EXPECT_LT(error_in_documents(lse_as_contract(), host_.lse), kExact);
  }

  void expect_backward(bool deterministic) {
    const AttentionGraphShape shape = backward_graph_shape(desc_, host_.backward());
    put_offsets(shape, true);
    put(kO, cells_of(host_.o));
    put(kGradO, cells_of(host_.grad_o));
    put(kLse, lse_as_graph());
    put(kGradOSum, nan(desc_.q_rows * desc_.num_heads));
    put(kGradQSum, nan(desc_.q_rows * (desc_.uniform ? q_cols() : shape.grad_q_stride)));
    put(kGradQ, nan(desc_.q_rows * shape.grad_q_stride));
    put(kGradK, nan(desc_.q_rows * shape.grad_k_stride));
    put(kGradV, nan(desc_.q_rows * shape.grad_v_stride));
    const std::int64_t group = desc_.num_heads / desc_.num_kv_heads;
    for (const AttentionTensor heads : {kGradKHeads, kGradVHeads}) {
      put(heads, nan(desc_.q_rows * q_cols()));  // as the workspace reserves
      graph_.offset_multiplier[id_of(heads)] = static_cast<double>(group);
    }
    build_attention_backward(graph_, shape, deterministic);
    EXPECT_LT(error_in_documents(rows_of(get(kGradQ), q_cols(), shape.grad_q_stride), host_.grad_q), kGradient);
    EXPECT_LT(error_in_documents(rows_of(get(kGradK), kv_cols(), shape.grad_k_stride), host_.grad_k), kGradient);
    EXPECT_LT(error_in_documents(rows_of(get(kGradV), kv_cols(), shape.grad_v_stride), host_.grad_v), kGradient);
  }

 private:
  std::int64_t q_cols() const { return desc_.num_heads * desc_.head_dim; }
  std::int64_t kv_cols() const { return desc_.num_kv_heads * desc_.head_dim; }
  static std::vector<double> nan(std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count), std::nan(""));
  }
  void put(AttentionTensor id, std::vector<double> cells) { graph_.memory[id_of(id)] = std::move(cells); }
  const std::vector<double>& get(AttentionTensor id) { return graph_.memory.at(id_of(id)); }

  // As kernels/attention_segments.cu derives them.
  void put_offsets(const AttentionGraphShape& shape, bool backward) {
    if (desc_.uniform) return;
    const auto slots = static_cast<std::size_t>(documents_.slots);
    std::vector<double> len(slots, 0.0), begin(slots + 1, static_cast<double>(desc_.q_rows));
    for (std::size_t i = 0; i < documents_.lengths.size(); ++i) {
      const ops::Segment segment = host_.segment(static_cast<std::int64_t>(i));
      len[i] = segment.q_len;
      begin[i] = segment.q_begin;
    }
    put(kQLen, len);
    put(kKvLen, len);
    graph_.row_limits = &graph_.memory.at(id_of(kQLen));
    std::int64_t id = id_of(kFirstOffset);
    for (const std::int64_t stride : offset_strides(shape, backward)) {
      std::vector<double>& offsets = graph_.memory[id++];
      for (const double row : begin) offsets.push_back(row * static_cast<double>(stride));
    }
  }

  // [batch, heads, len] of a uniform graph <-> [rows, heads] of the contract.
  std::vector<double> exchanged(const std::vector<double>& from, std::int64_t rows, std::int64_t cols) const {
    if (!desc_.uniform) return from;
    std::vector<double> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); ++i) {
      const std::int64_t batch = i / (rows * cols), row = i / cols % rows, col = i % cols;
      to[static_cast<std::size_t>((batch * cols + col) * rows + row)] = from[static_cast<std::size_t>(i)];
    }
    return to;
  }
  std::vector<double> lse_as_graph() { return exchanged(host_.lse.values(), desc_.max_document_len, desc_.num_heads); }
  std::vector<double> lse_as_contract() { return exchanged(get(kLse), desc_.num_heads, desc_.max_document_len); }

  // Relative error over the rows of documents; rows outside are not the graph's.
  double error_in_documents(const std::vector<double>& got, const HostTensor& expected) {
    std::vector<double> ours, theirs;
    for (std::size_t i = 0; i < documents_.lengths.size(); ++i) {
      const ops::Segment segment = host_.segment(static_cast<std::int64_t>(i));
      for (std::int64_t row = segment.q_begin; row < segment.q_begin + segment.q_len; ++row) {
        for (std::int64_t col = 0; col < expected.cols(); ++col) {
          ours.push_back(got.at(static_cast<std::size_t>(row * expected.cols() + col)));
          theirs.push_back(expected.at(row, col));
        }
      }
    }
    return cpu::relative_error(ours, theirs);
  }

  AttentionCase host_;
  Documents documents_;
  ops::AttentionDesc desc_;
  EagerGraph graph_;
};

const cpu::AttentionShape kShapes[] = {
    {4, 4, 6, 0, DType::kF32}, {4, 2, 6, 0, DType::kF32}, {3, 1, 4, 5, DType::kF32}, {2, 2, 4, 1, DType::kF32}};
const Documents kUniform = {.lengths = {11, 11}, .max_len = 11};
const Documents kPacked = {.lengths = {9, 1, 0, 13, 4}, .slots = 7, .max_len = 16};
const Documents kPackedWithGaps = {.lengths = {5, 12}, .gap = 2, .slots = 3, .max_len = 12};

TEST(CudnnAttentionGraph, ForwardIsTheFormula) {
  for (const cpu::AttentionShape& shape : kShapes) {
    for (const Documents& documents : {kUniform, kPacked, kPackedWithGaps}) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads << " window " << shape.window
                                        << " slots " << documents.slots);
      GraphRun(shape, documents).expect_forward();
    }
  }
}

TEST(CudnnAttentionGraph, BackwardIsTheGradient) {
  for (const cpu::AttentionShape& shape : kShapes) {
    if (shape.window == 1) continue;  // one key a query: the gradients of q and k are rounding
    for (const Documents& documents : {kUniform, kPacked, kPackedWithGaps}) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads << " window " << shape.window
                                        << " slots " << documents.slots);
      GraphRun(shape, documents).expect_backward(false);
    }
    GraphRun(shape, kUniform).expect_backward(true);
  }
}

TEST(CudnnAttentionGraph, OneOffsetTensorAStride) {
  AttentionGraphShape shape = {
      .packed = true, .num_heads = 4, .q_stride = 30, .k_stride = 30, .v_stride = 30, .o_stride = 20};
  EXPECT_EQ(offset_strides(shape, false), (std::vector<std::int64_t>{30, 20, 4}));
  shape.grad_o_stride = shape.grad_q_stride = 20;
  shape.grad_k_stride = shape.grad_v_stride = 5;
  EXPECT_EQ(offset_strides(shape, true), (std::vector<std::int64_t>{30, 20, 4, 5}));
}

}  // namespace
}  // namespace ida::cuda
