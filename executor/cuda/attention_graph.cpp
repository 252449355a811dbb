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
    const GraphTensor q = rows(shape_.size, 0), k = columns(shape_.size, 1);
    const GraphTensor v = rows(shape_.value_size, 2);
    GraphTensor scores = multiply(result_.graph.product(q, k), *scale_);
    if (nothing_) scores = result_.graph.lower_triangle(scores, *nothing_);
    const GraphTensor largest = result_.graph.reduction(CUDNN_REDUCE_TENSOR_MAX, scores);
    const GraphTensor above =
        result_.graph.pointwise(CUDNN_POINTWISE_EXP, subtract(scores, largest));
    const GraphTensor sum = result_.graph.reduction(CUDNN_REDUCE_TENSOR_ADD, above);
    result_.graph.pointwise(CUDNN_POINTWISE_ADD, largest,
                            result_.graph.pointwise(CUDNN_POINTWISE_LOG, sum), row_numbers(4));
    const GraphTensor shares = result_.graph.pointwise(
        CUDNN_POINTWISE_DIV, above, sum, result_.graph.virtual_tensor(above.sizes, shape_.type));
    result_.graph.product(shares, v, rows(shape_.value_size, 3));
    return std::move(result_);
  }

  AttentionGraph gradient() {
    const GraphTensor q = rows(shape_.size, 0), k = columns(shape_.size, 1);
    const GraphTensor v = columns(shape_.value_size, 2), y = rows(shape_.value_size, 3);
    const GraphTensor dy = rows(shape_.value_size, 5), log_sums = row_numbers(4);
    const GraphTensor one = number(1);
    const GraphTensor mean = result_.graph.pointwise(
        CUDNN_POINTWISE_MUL, result_.graph.reduction(CUDNN_REDUCE_TENSOR_ADD, multiply(dy, y)), one,
        row_numbers());
    GraphTensor scores = multiply(result_.graph.product(q, k), *scale_);
    scores = subtract(scores, log_sums);
    if (nothing_) scores = result_.graph.lower_triangle(scores, *nothing_);
    const GraphTensor shares = result_.graph.pointwise(CUDNN_POINTWISE_EXP, scores);
    result_.graph.product(result_.graph.transpose(shares, shape_.type), dy,
                          rows(shape_.value_size, 8));  // dv
    const GraphTensor dshares = subtract(result_.graph.product(dy, v), mean);
    const GraphTensor dscores = multiply(multiply(dshares, shares), *scale_);
    result_.graph.product(result_.graph.transpose(dscores, shape_.type), q, rows(shape_.size, 7));
    // dq is added up in fp32 by all that work on its row, and then rounded.
    const Extents sizes = {shape_.batch, shape_.heads, shape_.sequence, shape_.size};
    const GraphTensor sum = memory(sizes, dense_steps(sizes), CUDNN_DATA_FLOAT, true, {});
    result_.graph.product(dscores, result_.graph.transpose(k, shape_.type), sum);
    const CudnnGraph::Result dq = rows(shape_.size, 6);  // a tensor alone would be an operand
    result_.graph.pointwise(CUDNN_POINTWISE_IDENTITY, sum, dq);
    return std::move(result_);
  }

 private:
  GraphTensor memory(const Extents& sizes, const Extents& steps, cudnnDataType_t type, bool zeroed,
                     std::optional<std::size_t> operand) {
    GraphTensor tensor = result_.graph.tensor(sizes, steps, type);
    result_.memory.push_back(
        {tensor.id, sizes[0] * sizes[1] * sizes[2] * sizes[3], type, zeroed, operand});
    return tensor;
  }
  GraphTensor number(float value) {
    GraphTensor tensor = result_.graph.number();
    result_.numbers.push_back({tensor.id, value});
    return tensor;
  }
  HeadSteps steps(std::int64_t size, std::size_t operand) const {
    if (!shape_.steps.empty()) return shape_.steps[operand];
    const std::int64_t token = shape_.heads * size;
    return {shape_.sequence * token, token, size};
  }
  // [batch, sequence, heads, size] in memory, as rows of a head's matrix, or as its columns.
  GraphTensor rows(std::int64_t size, std::size_t operand) {
    const HeadSteps at = steps(size, operand);
    return memory({shape_.batch, shape_.heads, shape_.sequence, size},
                  {at.batch, at.head, at.token, 1}, shape_.type, false, operand);
  }
  GraphTensor columns(std::int64_t size, std::size_t operand) {
    const HeadSteps at = steps(size, operand);
    return memory({shape_.batch, shape_.heads, size, shape_.sequence},
                  {at.batch, at.head, 1, at.token}, shape_.type, false, operand);
  }
  GraphTensor row_numbers(std::optional<std::size_t> operand = {}) {
    const Extents sizes = {shape_.batch, shape_.heads, shape_.sequence, 1};
    return memory(sizes, dense_steps(sizes), CUDNN_DATA_FLOAT, false, operand);
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
