#include "backend/cuda/cudnn_graph.h"

#include <utility>

#include "base/error.h"

namespace ida::cuda {

// ---- descriptors ----

CudnnDescriptor::CudnnDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type) : api_(api) {
  check_cudnn(api_, api_.create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) api_.destroy_descriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : api_(other.api_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  const cudnnStatus_t status = api_.set_attribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check_cudnn(api_, status, fmt::format("cudnnBackendSetAttribute({})", static_cast<int>(name)));
  }
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void CudnnDescriptor::finalize() { check_cudnn(api_, api_.finalize(descriptor_), "cudnnBackendFinalize"); }

bool CudnnDescriptor::try_finalize(std::string& reason) {
  try {
    finalize();
    return true;
  } catch (const Error& error) {
    reason = error.what();
    return false;
  }
}

// ---- tensors ----

CudnnDescriptor& CudnnGraph::own(cudnnBackendDescriptorType_t type) {
  owned_.push_back(std::make_unique<CudnnDescriptor>(api_, type));
  return *owned_.back();
}

GraphTensor CudnnGraph::make(const GraphTensor& tensor, bool by_value) {
  constexpr std::int64_t kAlignmentBytes = 16;
  CudnnDescriptor& descriptor = own(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, tensor.dtype);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor.dims.data());
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor.strides.data());
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, tensor.id);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignmentBytes);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, tensor.id >= kFirstVirtualId);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  descriptor.finalize();
  tensors_[tensor.id] = &descriptor;
  return tensor;
}

GraphTensor CudnnGraph::tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) {
  return make({id, dtype, dims, strides}, false);
}

GraphTensor CudnnGraph::between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides) {
  return make({next_virtual_id_++, dtype, dims, strides}, false);
}

GraphTensor CudnnGraph::scalar(std::int64_t id) { return make({id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}}, true); }

// ---- operations ----

void CudnnGraph::add_operation(CudnnDescriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.get());
}

void CudnnGraph::matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) {
  CudnnDescriptor& product = own(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  product.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
  add_operation(operation);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, const GraphTensor& x, const GraphTensor* b,
                           const GraphTensor& y, const GraphTensor* predicate, std::int64_t axis) {
  CudnnDescriptor& function = own(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, math);
  if (axis >= 0) function.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  function.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(*b));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  if (predicate != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(*predicate));
  add_operation(operation);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, const GraphTensor& x, const GraphTensor& y) {
  CudnnDescriptor& reduction = own(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
  add_operation(operation);
}

void CudnnGraph::reshape(const GraphTensor& x, const GraphTensor& y) {
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
  add_operation(operation);
}

}  // namespace ida::cuda
