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

constexpr std::int64_t kLen = 11;  // of each of two documents

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
  explicit GraphRun(const cpu::AttentionShape& shape) : host_(shape, {kLen, kLen}, 0) {
    const auto device = cpu::devices_of_every_isa()[0];
    cpu::run_impl(cpu::attention_forward_impls().back(), host_.desc, host_.forward(), device);
    cpu::run_impl(cpu::attention_backward_impls().back(), host_.desc, host_.backward(), device);
    desc_ = host_.desc;
    desc_.uniform_document_len = kLen;
    put(kQ, cells_of(host_.q));
    put(kK, cells_of(host_.k));
    put(kV, cells_of(host_.v));
    put(kScale, {static_cast<double>(desc_.scale)});
    put(kMasked, {-std::numeric_limits<double>::infinity()});
    put(kOne, {1.0});
  }

  void expect_forward() {
    const AttentionGraphShape shape = forward_graph_shape(desc_, host_.forward());
    put(kO, nan(desc_.q_rows * shape.o_stride));
    put(kLse, nan(desc_.q_rows * desc_.num_heads));
    build_attention_forward(graph_, shape);
    EXPECT_LT(cpu::relative_error(rows_of(get(kO), q_cols(), shape.o_stride), host_.o.values()), kExact);
    EXPECT_LT(cpu::relative_error(lse_as_contract(), host_.lse.values()), kExact);
  }

  void expect_backward(bool deterministic) {
    const AttentionGraphShape shape = backward_graph_shape(desc_, host_.backward());
    put(kO, cells_of(host_.o));
    put(kGradO, cells_of(host_.grad_o));
    put(kLse, lse_as_graph());
    put(kGradOSum, nan(desc_.q_rows * desc_.num_heads));
    if (!deterministic) put(kGradQSum, nan(desc_.q_rows * q_cols()));  // the deterministic graph has no such tensor
    put(kGradQ, nan(desc_.q_rows * shape.grad_q_stride));
    put(kGradK, nan(desc_.q_rows * shape.grad_k_stride));
    put(kGradV, nan(desc_.q_rows * shape.grad_v_stride));
    build_attention_backward(graph_, shape, deterministic);
    EXPECT_LT(cpu::relative_error(rows_of(get(kGradQ), q_cols(), shape.grad_q_stride), host_.grad_q.values()), kGradient);
    EXPECT_LT(cpu::relative_error(rows_of(get(kGradK), kv_cols(), shape.grad_k_stride), host_.grad_k.values()), kGradient);
    EXPECT_LT(cpu::relative_error(rows_of(get(kGradV), kv_cols(), shape.grad_v_stride), host_.grad_v.values()), kGradient);
  }

 private:
  std::int64_t q_cols() const { return desc_.num_heads * desc_.head_dim; }
  std::int64_t kv_cols() const { return desc_.num_kv_heads * desc_.head_dim; }
  static std::vector<double> nan(std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count), std::nan(""));
  }
  void put(AttentionTensor id, std::vector<double> cells) { graph_.memory[id_of(id)] = std::move(cells); }
  const std::vector<double>& get(AttentionTensor id) { return graph_.memory.at(id_of(id)); }

  // [batch, heads, len] of the graph <-> [rows, heads] of the contract.
  std::vector<double> exchanged(const std::vector<double>& from, std::int64_t rows, std::int64_t cols) const {
    std::vector<double> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); ++i) {
      const std::int64_t batch = i / (rows * cols), row = i / cols % rows, col = i % cols;
      to[static_cast<std::size_t>((batch * cols + col) * rows + row)] = from[static_cast<std::size_t>(i)];
    }
    return to;
  }
  std::vector<double> lse_as_graph() { return exchanged(host_.lse.values(), kLen, desc_.num_heads); }
  std::vector<double> lse_as_contract() { return exchanged(get(kLse), desc_.num_heads, kLen); }

  AttentionCase host_;
  ops::AttentionDesc desc_;
  EagerGraph graph_;
};

const cpu::AttentionShape kShapes[] = {{4, 4, 6, 0, DType::kF32}, {4, 2, 6, 0, DType::kF32}, {3, 1, 4, 0, DType::kF32}};

TEST(CudnnAttentionGraph, ForwardIsTheFormula) {
  for (const cpu::AttentionShape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads);
    GraphRun(shape).expect_forward();
  }
}

TEST(CudnnAttentionGraph, BackwardIsTheGradient) {
  for (const cpu::AttentionShape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << ":" << shape.num_kv_heads);
    GraphRun(shape).expect_backward(false);
    GraphRun(shape).expect_backward(true);
  }
}

}  // namespace
}  // namespace ida::cuda
