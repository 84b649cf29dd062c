// A graph of cuDNN operations as backend descriptors. Every failing call throws Error(kRuntime) naming it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cudnn_api.h"
#include "backend/cuda/tensor_graph.h"

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

class CudnnGraph final : public TensorGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}

  GraphTensor tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) override;
  GraphTensor between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) override;
  GraphTensor scalar(std::int64_t id) override;
  void matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) override;
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, const GraphTensor& x, const GraphTensor* b,
                 const GraphTensor& y, const GraphTensor* predicate = nullptr, std::int64_t axis = -1) override;
  void reduce(cudnnReduceTensorOp_t op, const GraphTensor& x, const GraphTensor& y) override;
  void reshape(const GraphTensor& x, const GraphTensor& y) override;

  const CudnnApi& api() const { return api_; }
  std::span<const cudnnBackendDescriptor_t> operations() const { return operations_; }

 private:
  static constexpr std::int64_t kFirstVirtualId = 1'000'000;
  const CudnnDescriptor& of(const GraphTensor& tensor) const { return *tensors_.at(tensor.id); }
  GraphTensor make(const GraphTensor& tensor, bool by_value);
  CudnnDescriptor& own(cudnnBackendDescriptorType_t type);
  void add_operation(CudnnDescriptor& operation);

  const CudnnApi& api_;
  std::int64_t next_virtual_id_ = kFirstVirtualId;
  std::map<std::int64_t, const CudnnDescriptor*> tensors_;
  std::vector<std::unique_ptr<CudnnDescriptor>> owned_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace ida::cuda
