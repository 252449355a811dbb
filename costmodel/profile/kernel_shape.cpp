#include "costmodel/profile/kernel_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t rows_of(const Operand& operand) {
  return element_count(operand) / std::max<std::int64_t>(operand.sizes.back(), 1);
}

Shape matmul_shape(const Kernel& kernel) {
  const Operand& first = kernel.operands[0];
  const Operand& second = kernel.operands[1];
  switch (kernel.phase) {
    case Phase::Forward:  // x [.., k], weight [k, n]
      return {rows_of(first), second.sizes.back(), first.sizes.back()};
    case Phase::InputGradient:  // weight [k, n], dy [.., n]
      return {rows_of(second), second.sizes.back(), first.sizes.front()};
    case Phase::WeightGradient:  // x [.., k], dy [.., n]
    case Phase::Step:
      break;
  }
  return {rows_of(first), second.sizes.back(), first.sizes.back()};
}

// What is measured is a square of the same tokens, or all of it. Keys of other places than the
// queries are as long as that if as many pairs are seen. None: it is like neither.
std::optional<std::string_view> mask_of(const Kernel& kernel,
                                        const AttentionAttributes& attention) {
  const bool same = kernel.place.size() != 4 || kernel.place[2].ranges == kernel.place[3].ranges;
  if (!attention.causal) return "full";
  if (same) return "causal";
  const double seen = seen_share_of(kernel);
  if (seen == 1) return "full";
  return seen == 0.5 ? std::optional<std::string_view>("causal") : std::nullopt;
}

std::optional<ShapedKernel> shape_of_attention(const Kernel& kernel) {
  const auto* attention = std::get_if<AttentionAttributes>(&kernel.attributes);
  const Extents& q = kernel.operands[0].sizes;
  const Extents& k = kernel.operands[1].sizes;
  const Extents& v = kernel.operands[2].sizes;
  if (!attention || attention->window || attention->alibi) return {};
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[1] != k[1]) return {};
  const auto mask = mask_of(kernel, *attention);
  if (!mask) return {};
  std::string variant = fmt::format("{} {}", *mask, q[3]);
  if (v[3] != q[3]) variant += fmt::format("+{}", v[3]);
  if (attention->dropout > 0) variant += " dropout";
  return ShapedKernel{{kernel.kind, kernel.phase, variant}, {checked_multiply(q[0], q[2]), q[1]}};
}

ShapedKernel elementwise_shape(const Kernel& kernel) {
  std::string variant;
  if (const auto* function = std::get_if<FunctionAttributes>(&kernel.attributes)) {
    variant = to_text(function->function);
  }
  if (!std::ranges::all_of(kernel.operands, is_dense))
    variant += variant.empty() ? "strided" : " strided";
  std::int64_t most = 0;
  for (const Operand& operand : kernel.operands) most = std::max(most, element_count(operand));
  return {{kernel.kind, kernel.phase, variant}, {most}};
}

Shape embedding_shape(const Kernel& kernel) {
  const Operand& index = kernel.operands[0];
  if (kernel.phase == Phase::Forward) {
    return {element_count(index), kernel.operands[1].sizes.back()};
  }
  const Operand& table = kernel.operands[2];
  return {element_count(index), table.sizes.back(), rows_of(table)};
}

// x [b, s, .., d]: the angles of a position serve all its rows.
Shape rope_shape(const Extents& sizes) {
  const std::int64_t positions = std::max<std::int64_t>(sizes[1], 1);
  return {sizes[1], checked_product(sizes) / (positions * sizes.back()), sizes.back()};
}

std::int64_t real_elements(const Kernel& kernel) {
  std::int64_t count = 0;
  for (const Operand& operand : kernel.operands) {
    if (operand.element == BufferElement::Real || operand.element == BufferElement::Single) {
      count = checked_add(count, element_count(operand));
    }
  }
  return count;
}

}  // namespace

std::optional<ShapedKernel> shape_of(const Kernel& kernel) {
  const auto with = [&](Shape shape) {
    return ShapedKernel{{kernel.kind, kernel.phase, {}}, std::move(shape)};
  };
  const bool forward = kernel.phase == Phase::Forward;
  switch (kernel.kind) {
    case KernelKind::Load:
    case KernelKind::Router:
    case KernelKind::RouterCounts:
    case KernelKind::RouterRoom:
    case KernelKind::BalanceSums:
    case KernelKind::Balance:
    case KernelKind::ExpertOrder:
    case KernelKind::Dispatch:
    case KernelKind::SortRows:
    case KernelKind::ExpertMatmul:
    case KernelKind::Combine:
      return {};
    case KernelKind::Matmul:
      return with(matmul_shape(kernel));
    case KernelKind::Attention:
      return shape_of_attention(kernel);
    case KernelKind::Embedding: {
      ShapedKernel result = with(embedding_shape(kernel));
      if (!forward && kernel.accumulate) result.kernel.variant = "accumulate";
      return result;
    }
    case KernelKind::Loss:
      if (forward) return with({element_count(kernel.operands[0])});
      [[fallthrough]];
    case KernelKind::RowSums:
    case KernelKind::LayerNorm:
    case KernelKind::RmsNorm:
    case KernelKind::LossLargest:
    case KernelKind::LossSums:
      return with({rows_of(kernel.operands[0]), kernel.operands[0].sizes.back()});
    case KernelKind::Rope:
      return with(rope_shape(kernel.operands[0].sizes));
    case KernelKind::Activation:
    case KernelKind::GatedActivation:
    case KernelKind::Scale:
    case KernelKind::Dropout:
    case KernelKind::Add:
    case KernelKind::Sum:
      return elementwise_shape(kernel);
    case KernelKind::NormLargest:
    case KernelKind::NormSums:
      return with({real_elements(kernel)});
    case KernelKind::ClipFactor:
      return with({1});
    case KernelKind::AdamW: {
      constexpr std::size_t kWithMaster = 6;
      ShapedKernel result = with({element_count(kernel.operands[0])});
      if (kernel.operands.size() == kWithMaster) result.kernel.variant = "master";
      return result;
    }
  }
  return {};
}

}  // namespace meshwright
