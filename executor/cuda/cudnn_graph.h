#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

// Graphs of operations in cuDNN's backend interface.
namespace meshwright::cuda {

void check(cudnnStatus_t status, const char* call);

// Something that cuDNN's backend knows by its attributes. Copies are the same thing.
class Description {
 public:
  explicit Description(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return *description_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values) const;
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const Value& value) const {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Description& part) const {
    const cudnnBackendDescriptor_t other = part.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other);
  }
  void finish() const;
  // False: cuDNN does not support what it describes.
  bool try_finish() const;

 private:
  std::shared_ptr<cudnnBackendDescriptor_t> description_;
};

// Of all tensors in memory, in bytes.
inline constexpr std::int64_t kGraphAlignment = 16;

// Batch, heads, rows, columns.
using Extents = std::array<std::int64_t, 4>;
Extents dense_steps(const Extents& sizes);

struct GraphTensor {
  std::int64_t id = 0;
  Extents sizes{}, steps{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Description description;
};

class CudnnGraph {
 public:
  // In device memory, which is given when the graph runs.
  GraphTensor tensor(const Extents& sizes, const Extents& steps, cudnnDataType_t type);
  // A number of the host, given when the graph runs.
  GraphTensor number();
  // Results that no memory holds, unless `to` is given.
  using Result = std::optional<GraphTensor>;
  GraphTensor product(const GraphTensor& a, const GraphTensor& b, const Result& to = {});
  GraphTensor pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x, const Result& to = {});
  GraphTensor pointwise(cudnnPointwiseMode_t mode, const GraphTensor& x, const GraphTensor& b,
                        const Result& to = {});
  // Along the columns.
  GraphTensor reduction(cudnnReduceTensorOp_t operation, const GraphTensor& x,
                        const Result& to = {});
  // x where a row's number is at least the column's, elsewhere the number.
  GraphTensor lower_triangle(const GraphTensor& x, const GraphTensor& elsewhere);
  // Rows as columns, as another type.
  GraphTensor transpose(const GraphTensor& x, cudnnDataType_t type);
  // A result that no memory holds, as another type.
  GraphTensor virtual_tensor(const Extents& sizes, cudnnDataType_t type);

  const std::vector<Description>& operations() const { return operations_; }

 private:
  GraphTensor make(const Extents& sizes, const Extents& steps, cudnnDataType_t type,
                   bool is_virtual, bool by_value);
  Description pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                             std::optional<std::int64_t> axis = {});
  void add_pointwise(const Description& kind, const GraphTensor& x, const GraphTensor* b,
                     const GraphTensor* t, const GraphTensor& y);

  std::int64_t next_id_ = 1;
  std::vector<Description> operations_;
};

}  // namespace meshwright::cuda
