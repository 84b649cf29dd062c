// Operations on tensors of rank 4, [batch, heads, rows, cols], as a builder of graphs sees them. cuDNN's descriptors
// implement them (cudnn_graph.h); so does an interpreter in the tests.
#pragma once
#include <cudnn_graph.h>

#include <array>
#include <cstdint>

namespace ida::cuda {

using Shape4 = std::array<std::int64_t, 4>;
inline Shape4 dense_strides(const Shape4& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

struct GraphTensor {
  std::int64_t id = 0;
  cudnnDataType_t dtype = CUDNN_DATA_FLOAT;
  Shape4 dims{};
  Shape4 strides{};
};

class TensorGraph {
 public:
  virtual ~TensorGraph() = default;
  // A tensor with an address, given at execution by its id.
  virtual GraphTensor tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) = 0;
  // A tensor between operations.
  virtual GraphTensor between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) = 0;
  // An f32 number that the host gives at execution.
  virtual GraphTensor scalar(std::int64_t id) = 0;

  // c = a b per batch and head, f32 accumulation. Heads of b serve groups of heads of a.
  virtual void matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) = 0;
  // y = mode(x) or mode(x, b); select: y = predicate ? x : b. axis: of the index that GEN_INDEX generates.
  virtual void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, const GraphTensor& x, const GraphTensor* b,
                         const GraphTensor& y, const GraphTensor* predicate = nullptr, std::int64_t axis = -1) = 0;
  // Reduces the axes in which y has extent 1 or, for heads, a divisor of x's.
  virtual void reduce(cudnnReduceTensorOp_t op, const GraphTensor& x, const GraphTensor& y) = 0;
  // y: the elements of x with rows and cols exchanged.
  virtual void reshape(const GraphTensor& x, const GraphTensor& y) = 0;
};

}  // namespace ida::cuda
