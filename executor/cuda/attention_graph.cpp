#include "executor/cuda/attention_graph.h"

#include <limits>

namespace meshwright::cuda {
namespace {

class Builder {
 public:
  Builder(const AttentionShape& shape, float scale) : shape_(shape) {
    scale_ = number(scale);
    if (shape.causal) nothing_ = number(std::numeric_limits<float>::lowest());
  }

  AttentionGraph forward() {
    const GraphTensor q = rows(shape_.size), k = columns(shape_.size), v = rows(shape_.value_size);
    GraphTensor scores = multiply(result_.graph.product(q, k), *scale_);
    if (nothing_) scores = result_.graph.lower_triangle(scores, *nothing_);
    const GraphTensor largest = result_.graph.reduction(CUDNN_REDUCE_TENSOR_MAX, scores);
    const GraphTensor above =
        result_.graph.pointwise(CUDNN_POINTWISE_EXP, subtract(scores, largest));
    const GraphTensor sum = result_.graph.reduction(CUDNN_REDUCE_TENSOR_ADD, above);
    result_.graph.pointwise(CUDNN_POINTWISE_ADD, largest,
                            result_.graph.pointwise(CUDNN_POINTWISE_LOG, sum), row_numbers());
    const GraphTensor shares = result_.graph.pointwise(
        CUDNN_POINTWISE_DIV, above, sum, result_.graph.virtual_tensor(above.sizes, shape_.type));
    result_.graph.product(shares, v, rows(shape_.value_size));
    return std::move(result_);
  }

  AttentionGraph gradient() {
    const GraphTensor q = rows(shape_.size), k = columns(shape_.size);
    const GraphTensor v = columns(shape_.value_size), y = rows(shape_.value_size);
    const GraphTensor dy = rows(shape_.value_size), log_sums = row_numbers();
    const GraphTensor one = number(1);
    const GraphTensor mean = result_.graph.pointwise(
        CUDNN_POINTWISE_MUL, result_.graph.reduction(CUDNN_REDUCE_TENSOR_ADD, multiply(dy, y)), one,
        row_numbers());
    GraphTensor scores = multiply(result_.graph.product(q, k), *scale_);
    scores = subtract(scores, log_sums);
    if (nothing_) scores = result_.graph.lower_triangle(scores, *nothing_);
    const GraphTensor shares = result_.graph.pointwise(CUDNN_POINTWISE_EXP, scores);
    result_.graph.product(result_.graph.transpose(shares, shape_.type), dy,
                          rows(shape_.value_size));  // dv
    const GraphTensor dshares = subtract(result_.graph.product(dy, v), mean);
    const GraphTensor dscores = multiply(multiply(dshares, shares), *scale_);
    result_.graph.product(result_.graph.transpose(dscores, shape_.type), q, rows(shape_.size));
    // dq is added up in fp32 by all that work on its row, and then rounded.
    const Extents sizes = {shape_.batch, shape_.heads, shape_.sequence, shape_.size};
    const GraphTensor sum = memory(sizes, dense_steps(sizes), CUDNN_DATA_FLOAT, true);
    result_.graph.product(dscores, result_.graph.transpose(k, shape_.type), sum);
    result_.graph.pointwise(CUDNN_POINTWISE_IDENTITY, sum, rows(shape_.size));
    return std::move(result_);
  }

 private:
  GraphTensor memory(const Extents& sizes, const Extents& steps, cudnnDataType_t type,
                     bool zeroed = false) {
    GraphTensor tensor = result_.graph.tensor(sizes, steps, type);
    result_.memory.push_back({tensor.id, sizes[0] * sizes[1] * sizes[2] * sizes[3], type, zeroed});
    return tensor;
  }
  GraphTensor number(float value) {
    GraphTensor tensor = result_.graph.number();
    result_.numbers.push_back({tensor.id, value});
    return tensor;
  }
  // [batch, sequence, heads, size] in memory, as rows of a head's matrix, or as its columns.
  GraphTensor rows(std::int64_t size) {
    const std::int64_t token = shape_.heads * size;
    return memory({shape_.batch, shape_.heads, shape_.sequence, size},
                  {shape_.sequence * token, size, token, 1}, shape_.type);
  }
  GraphTensor columns(std::int64_t size) {
    const std::int64_t token = shape_.heads * size;
    return memory({shape_.batch, shape_.heads, size, shape_.sequence},
                  {shape_.sequence * token, size, 1, token}, shape_.type);
  }
  GraphTensor row_numbers() {
    const Extents sizes = {shape_.batch, shape_.heads, shape_.sequence, 1};
    return memory(sizes, dense_steps(sizes), CUDNN_DATA_FLOAT);
  }
  GraphTensor multiply(const GraphTensor& a, const GraphTensor& b) {
    return result_.graph.pointwise(CUDNN_POINTWISE_MUL, a, b);
  }
  GraphTensor subtract(const GraphTensor& a, const GraphTensor& b) {
    return result_.graph.pointwise(CUDNN_POINTWISE_SUB, a, b);
  }

  AttentionShape shape_;
  AttentionGraph result_;
  std::optional<GraphTensor> scale_, nothing_;
};

}  // namespace

AttentionGraph attention_forward_graph(const AttentionShape& shape, float scale) {
  return Builder(shape, scale).forward();
}

AttentionGraph attention_gradient_graph(const AttentionShape& shape, float scale) {
  return Builder(shape, scale).gradient();
}

}  // namespace meshwright::cuda
