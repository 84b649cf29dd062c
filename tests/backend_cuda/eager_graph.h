// An interpreter of TensorGraph in f64: every operation is carried out when it is added, on memory that the test gives.
// What a graph means can be tested with it where no GPU and no cuDNN is.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include "backend/cuda/tensor_graph.h"

namespace ida::cuda {

class EagerGraph final : public TensorGraph {
 public:
  // By tensor id, before the graph is built: contents of tensors with an address, values of scalars.
  std::map<std::int64_t, std::vector<double>> memory;

  GraphTensor tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) override {
    return {id, dtype, dims, strides};
  }
  GraphTensor between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) override {
    const std::int64_t id = next_id_++;
    values_[id].resize(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
    return {id, dtype, dims, strides};
  }
  GraphTensor scalar(std::int64_t id) override { return {id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}}; }

  void matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) override {
    for_each(c, [&](const Shape4& at) {
      double sum = 0.0;
      const std::int64_t a_head = at[1] * a.dims[1] / c.dims[1], b_head = at[1] * b.dims[1] / c.dims[1];
      for (std::int64_t k = 0; k < a.dims[3]; ++k)
        sum += read(a, {at[0], a_head, at[2], k}) * read(b, {at[0], b_head, k, at[3]});
      write(c, at, sum);
    });
  }
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t, const GraphTensor& x, const GraphTensor* b,
                 const GraphTensor& y, const GraphTensor* predicate, std::int64_t axis) override {
    for_each(y, [&](const Shape4& at) {
      const double left = read(x, at);
      const double right = b == nullptr ? 0.0 : read(*b, at);
      if (mode == CUDNN_POINTWISE_GEN_INDEX) {
        write(y, at, static_cast<double>(at[static_cast<std::size_t>(axis)]));
      } else if (mode == CUDNN_POINTWISE_BINARY_SELECT) {
        write(y, at, read(*predicate, at) != 0.0 ? left : right);
      } else {
        write(y, at, evaluate(mode, left, right));
      }
    });
  }
  void reduce(cudnnReduceTensorOp_t op, const GraphTensor& x, const GraphTensor& y) override {
    const bool is_max = op == CUDNN_REDUCE_TENSOR_MAX;
    std::map<Shape4, double> results;
    for_each(x, [&](const Shape4& at) {
      Shape4 to;
      for (std::size_t i = 0; i < 4; ++i) to[i] = at[i] * y.dims[i] / x.dims[i];
      const auto [result, is_first] = results.try_emplace(to, is_max ? -std::numeric_limits<double>::infinity() : 0.0);
      result->second = is_max ? std::max(result->second, read(x, at)) : result->second + read(x, at);
    });
    for (const auto& [at, value] : results) write(y, at, value);
  }
  void reshape(const GraphTensor& x, const GraphTensor& y) override {
    for_each(y, [&](const Shape4& at) { write(y, at, read(x, {at[0], at[1], at[3], at[2]})); });
  }

 private:
  static double evaluate(cudnnPointwiseMode_t mode, double x, double b) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD: return x + b;
      case CUDNN_POINTWISE_SUB: return x - b;
      case CUDNN_POINTWISE_MUL: return x * b;
      case CUDNN_POINTWISE_DIV: return x / b;
      case CUDNN_POINTWISE_EXP: return std::exp(x);
      case CUDNN_POINTWISE_LOG: return std::log(x);
      case CUDNN_POINTWISE_IDENTITY: return x;
      case CUDNN_POINTWISE_CMP_GE: return x >= b;
      default: throw std::logic_error("a mode that the interpreter does not know");
    }
  }

  static void for_each(const GraphTensor& tensor, const std::function<void(const Shape4&)>& body) {
    const Shape4& d = tensor.dims;
    for (std::int64_t b = 0; b < d[0]; ++b) {
      for (std::int64_t h = 0; h < d[1]; ++h) {
        for (std::int64_t r = 0; r < d[2]; ++r) {
          for (std::int64_t c = 0; c < d[3]; ++c) body({b, h, r, c});
        }
      }
    }
  }

  bool is_value(const GraphTensor& t) const { return values_.count(t.id) > 0; }
  // Axes of extent 1 are broadcast.
  static Shape4 clamped(const GraphTensor& t, Shape4 at) {
    for (std::size_t i = 0; i < 4; ++i) at[i] = t.dims[i] == 1 ? 0 : at[i];
    return at;
  }
  static std::size_t value_index(const GraphTensor& t, const Shape4& at) {
    return static_cast<std::size_t>(((at[0] * t.dims[1] + at[1]) * t.dims[2] + at[2]) * t.dims[3] + at[3]);
  }
  static std::size_t address(const GraphTensor& t, const Shape4& at) {
    return static_cast<std::size_t>(at[0] * t.strides[0] + at[1] * t.strides[1] + at[2] * t.strides[2] +
                                    at[3] * t.strides[3]);
  }
  double read(const GraphTensor& t, const Shape4& wide) const {
    const Shape4 at = clamped(t, wide);
    return is_value(t) ? values_.at(t.id).at(value_index(t, at)) : memory.at(t.id).at(address(t, at));
  }
  void write(const GraphTensor& t, const Shape4& at, double value) {
    (is_value(t) ? values_[t.id][value_index(t, at)] : memory.at(t.id).at(address(t, at))) = value;
  }

  std::int64_t next_id_ = 1'000'000;
  std::map<std::int64_t, std::vector<double>> values_;
};

}  // namespace ida::cuda
