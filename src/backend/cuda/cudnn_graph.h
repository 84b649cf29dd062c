// A graph of cuDNN operations as backend descriptors, and the executable plan of it.
//
// Tensors are rank 4: [batch, heads, rows, cols]. A tensor whose `id` is kVirtual exists only between operations of the
// graph; the others get their address at execution, by id. Every failing call throws Error(kRuntime) naming it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cudnn_api.h"

namespace ida::cuda {

// One backend descriptor, destroyed with its owner.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void finalize();
  // finalize() that reports instead of throwing.
  bool try_finalize(std::string& reason);
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const CudnnApi& api_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using Shape4 = std::array<std::int64_t, 4>;
Shape4 dense_strides(const Shape4& dims);

struct CudnnTensor {
  static constexpr std::int64_t kVirtual = -1;
  std::int64_t id = kVirtual;
  cudnnDataType_t dtype = CUDNN_DATA_FLOAT;
  Shape4 dims{};
  Shape4 strides{};
  const CudnnDescriptor* descriptor = nullptr;
};

class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}

  // A tensor with an address. `ragged_offsets` (i64 [batch + 1, 1, 1, 1], in elements) says where each batch item starts.
  CudnnTensor tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                     const CudnnTensor* ragged_offsets = nullptr);
  // A tensor between operations.
  CudnnTensor between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                      const CudnnTensor* ragged_offsets = nullptr);
  // An f32 number that the host gives at execution.
  CudnnTensor scalar(std::int64_t id);

  // Lengths that override the extents of the tensors, [batch, 1, 1, 1] i32; null: none.
  struct MatmulLimits {
    const CudnnTensor* m = nullptr;
    const CudnnTensor* n = nullptr;
    const CudnnTensor* k = nullptr;
  };
  // c = a b per batch and head, f32 accumulation.
  void matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c, const MatmulLimits& limits);
  // y = mode(x) or mode(x, b); select: y = predicate ? x : b. axis: of the index that GEN_INDEX generates.
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, const CudnnTensor& x, const CudnnTensor* b,
                 const CudnnTensor& y, const CudnnTensor* predicate = nullptr, std::int64_t axis = -1);
  // Reduces the axes in which y has extent 1 or, for heads, a divisor of x's.
  void reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y);
  // y: the elements of x under other dims and strides.
  void reshape(const CudnnTensor& x, const CudnnTensor& y);

  const CudnnApi& api() const { return api_; }
  std::span<const cudnnBackendDescriptor_t> operations() const { return operations_; }

 private:
  CudnnTensor make(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides, bool by_value,
                   const CudnnTensor* ragged_offsets);
  CudnnDescriptor& own(cudnnBackendDescriptorType_t type);
  void add_operation(CudnnDescriptor& operation);

  const CudnnApi& api_;
  std::int64_t next_virtual_id_ = 1'000'000;
  std::vector<std::unique_ptr<CudnnDescriptor>> owned_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace ida::cuda
