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

Shape4 dense_strides(const Shape4& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

CudnnDescriptor& CudnnGraph::own(cudnnBackendDescriptorType_t type) {
  owned_.push_back(std::make_unique<CudnnDescriptor>(api_, type));
  return *owned_.back();
}

CudnnTensor CudnnGraph::make(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                             bool by_value, const CudnnTensor* ragged_offsets) {
  constexpr std::int64_t kAlignmentBytes = 16;
  const bool is_virtual = id == CudnnTensor::kVirtual;
  CudnnDescriptor& descriptor = own(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, dtype);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, is_virtual ? next_virtual_id_++ : id);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignmentBytes);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  if (ragged_offsets != nullptr) descriptor.set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, *ragged_offsets->descriptor);
  descriptor.finalize();
  return {id, dtype, dims, strides, &descriptor};
}

CudnnTensor CudnnGraph::tensor(std::int64_t id, cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                               const CudnnTensor* ragged_offsets) {
  return make(id, dtype, dims, strides, false, ragged_offsets);
}

CudnnTensor CudnnGraph::between(cudnnDataType_t dtype, const Shape4& dims, const Shape4& strides,
                                const CudnnTensor* ragged_offsets) {
  return make(CudnnTensor::kVirtual, dtype, dims, strides, false, ragged_offsets);
}

CudnnTensor CudnnGraph::scalar(std::int64_t id) {
  return make(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, true, nullptr);
}

// ---- operations ----

void CudnnGraph::add_operation(CudnnDescriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.get());
}

void CudnnGraph::matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c, const MatmulLimits& limits) {
  CudnnDescriptor& product = own(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  product.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.descriptor);
  if (limits.m != nullptr) operation.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, *limits.m->descriptor);
  if (limits.n != nullptr) operation.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, *limits.n->descriptor);
  if (limits.k != nullptr) operation.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, *limits.k->descriptor);
  add_operation(operation);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, const CudnnTensor& x, const CudnnTensor* b,
                           const CudnnTensor& y, const CudnnTensor* predicate, std::int64_t axis) {
  CudnnDescriptor& function = own(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, math);
  if (axis >= 0) function.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  function.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.descriptor);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.descriptor);
  if (predicate != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *predicate->descriptor);
  add_operation(operation);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor& reduction = own(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize();
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor);
  add_operation(operation);
}

void CudnnGraph::reshape(const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor& operation = own(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.descriptor);
  add_operation(operation);
}

}  // namespace ida::cuda
