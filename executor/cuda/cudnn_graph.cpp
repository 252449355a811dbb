#include "executor/cuda/cudnn_graph.h"

#include <string>

#include "executor/device_error.h"
#include "executor/environment_error.h"

namespace meshwright::cuda {

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = std::string("CUDA: ") + call + ": " + cudnnGetErrorString(status);
  if (status == CUDNN_STATUS_NOT_INITIALIZED) throw EnvironmentError(message);
  throw DeviceError(message);
}

Description::Description(cudnnBackendDescriptorType_t type)
    : description_(new cudnnBackendDescriptor_t(nullptr), [](cudnnBackendDescriptor_t* owned) {
        if (*owned != nullptr) cudnnBackendDestroyDescriptor(*owned);
        delete owned;
      }) {
  check(cudnnBackendCreateDescriptor(type, description_.get()), "cudnnBackendCreateDescriptor");
}

void Description::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      std::int64_t count, const void* values) const {
  check(cudnnBackendSetAttribute(get(), name, type, count, values), "cudnnBackendSetAttribute");
}

void Description::finish() const { check(cudnnBackendFinalize(get()), "cudnnBackendFinalize"); }

bool Description::try_finish() const { return cudnnBackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

Extents dense_steps(const Extents& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

GraphTensor CudnnGraph::make(const Extents& sizes, const Extents& steps, cudnnDataType_t type,
                             bool is_virtual, bool by_value) {
  GraphTensor tensor{next_id_++, sizes, steps, type, Description(CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
  const Description& description = tensor.description;
  description.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, tensor.id);
  description.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  description.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kGraphAlignment);
  description.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes.data());
  description.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, steps.data());
  description.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  description.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  description.finish();
  return tensor;
}

GraphTensor CudnnGraph::tensor(const Extents& sizes, const Extents& steps, cudnnDataType_t type) {
  return make(sizes, steps, type, false, false);
}
GraphTensor CudnnGraph::number() {
  return make({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true);
}
GraphTensor CudnnGraph::virtual_tensor(const Extents& sizes, cudnnDataType_t type) {
  return make(sizes, dense_steps(sizes), type, true, false);
}

GraphTensor CudnnGraph::product(const GraphTensor& a, const GraphTensor& b, const Result& to) {
  const Description kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finish();
  const GraphTensor y =
      to ? *to : virtual_tensor({a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[3]}, CUDNN_DATA_FLOAT);
  const Description operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.description);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.description);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y.description);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  operation.finish();
  operations_.push_back(operation);
  return y;
}

Description CudnnGraph::pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                       std::optional<std::int64_t> axis) {
  const Description kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  if (axis) kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *axis);
  kind.finish();
  return kind;
}

void CudnnGraph::add_pointwise(const Description& kind, const GraphTensor& x, const GraphTensor* b,
                               const GraphTensor* t, const GraphTensor& y) {
  const Description operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.description);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->description);
  if (t != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->description);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.description);
  operation.finish();
  operations_.push_back(operation);
}

GraphTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x,
                                  const Result& to) {
  const GraphTensor y = to ? *to : virtual_tensor(x.sizes, CUDNN_DATA_FLOAT);
  add_pointwise(pointwise_kind(mode, CUDNN_DATA_FLOAT), x, nullptr, nullptr, y);
  return y;
}

GraphTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x,
                                  const GraphTensor& b, const Result& to) {
  const GraphTensor y = to ? *to : virtual_tensor(x.sizes, CUDNN_DATA_FLOAT);
  add_pointwise(pointwise_kind(mode, CUDNN_DATA_FLOAT), x, &b, nullptr, y);
  return y;
}

GraphTensor CudnnGraph::reduction(cudnnReduceTensorOp_t operation, const GraphTensor& x,
                                  const Result& to) {
  const Description kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finish();
  const GraphTensor y =
      to ? *to : virtual_tensor({x.sizes[0], x.sizes[1], x.sizes[2], 1}, CUDNN_DATA_FLOAT);
  const Description done(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  done.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  done.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.description);
  done.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.description);
  done.finish();
  operations_.push_back(done);
  return y;
}

GraphTensor CudnnGraph::lower_triangle(const GraphTensor& x, const GraphTensor& elsewhere) {
  const auto numbers_along = [&](std::int64_t axis) {
    const GraphTensor numbers = virtual_tensor(x.sizes, CUDNN_DATA_INT32);
    add_pointwise(pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis), x, nullptr,
                  nullptr, numbers);
    return numbers;
  };
  const GraphTensor row = numbers_along(2), column = numbers_along(3);
  const GraphTensor kept = virtual_tensor(x.sizes, CUDNN_DATA_BOOLEAN);
  add_pointwise(pointwise_kind(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN), row, &column, nullptr,
                kept);
  const GraphTensor y = virtual_tensor(x.sizes, CUDNN_DATA_FLOAT);
  add_pointwise(pointwise_kind(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT), x, &elsewhere,
                &kept, y);
  return y;
}

GraphTensor CudnnGraph::transpose(const GraphTensor& x, cudnnDataType_t type) {
  const GraphTensor y = make({x.sizes[0], x.sizes[1], x.sizes[3], x.sizes[2]},
                             {x.steps[0], x.steps[1], x.steps[3], x.steps[2]}, type, true, false);
  const Description operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.description);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.description);
  operation.finish();
  operations_.push_back(operation);
  return y;
}

}  // namespace meshwright::cuda
