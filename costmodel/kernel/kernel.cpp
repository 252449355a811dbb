#include "costmodel/kernel/kernel.h"

#include <algorithm>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

// [m, k] x [k, n] in any part: every pair of operands has two of the three sizes.
Flops matmul_flops(const Kernel& kernel) {
  const Operand& first = kernel.operands[0];
  const Operand& second = kernel.operands[1];
  switch (kernel.phase) {
    case Phase::Forward:  // x [.., k], weight [k, n]
      return Flops(checked_product({2, checked_product(first.sizes), second.sizes.back()}));
    case Phase::InputGradient:  // weight [k, n], dy [.., n]
      return Flops(checked_product({2, checked_product(second.sizes), first.sizes.front()}));
    case Phase::WeightGradient:  // x [.., k], dy [.., n]
      return Flops(checked_product({2, checked_product(first.sizes), second.sizes.back()}));
    case Phase::Step:
      return Flops(0);
  }
  return Flops(0);
}

// Two products for each pair of a query and a key forward; backward four, and one more where it
// repeats the scores.
Flops attention_flops(const Kernel& kernel, std::int64_t pairs, bool repeats_scores) {
  const std::int64_t query_size = kernel.operands[0].sizes[3];
  const std::int64_t value_size = kernel.operands[2].sizes[3];
  const std::int64_t forward = checked_multiply(2 * pairs, checked_add(query_size, value_size));
  if (kernel.phase == Phase::Forward) return Flops(forward);
  const std::int64_t scores = repeats_scores ? checked_multiply(2 * pairs, query_size) : 0;
  return Flops(checked_add(checked_multiply(2, forward), scores));
}

std::int64_t square_of(const Kernel& kernel) {
  const auto& q = kernel.operands[0].sizes;
  return checked_product({q[0], q[1], q[2], kernel.operands[1].sizes[1]});
}

// Keys that queries see together, the last query all of them: 1 + 2 + .. without a window.
std::int64_t causal_pairs(std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const auto up_to = [](std::int64_t n) { return checked_multiply(n, n + 1) / 2; };
  const std::int64_t before = std::max<std::int64_t>(keys - queries, 0);
  const std::int64_t ramp_end = std::clamp(window, before, keys);
  return up_to(ramp_end) - up_to(before) + checked_multiply(keys - ramp_end, window);
}

// The sum of places `first` to `end`, each counted from 0 on and as `most` at most.
std::int64_t clamped_sum(std::int64_t first, std::int64_t end, std::int64_t most) {
  const auto before = [&](std::int64_t place) {
    const std::int64_t ramp = std::clamp<std::int64_t>(place, 0, most);
    const std::int64_t above = checked_multiply(std::max<std::int64_t>(place - most, 0), most);
    return checked_add(checked_multiply(ramp, ramp - 1) / 2, above);
  };
  return before(end) - before(first);
}

// Pairs of queries and keys of which the key is not after the query, nor before its window.
std::int64_t causal_pairs(const ShardRange& queries, const ShardRange& keys,
                          const std::optional<std::int64_t>& window) {
  const auto up_to = [&](std::int64_t back) {
    const std::int64_t shift = 1 - back - keys.start;
    return clamped_sum(queries.start + shift, queries.start + queries.size + shift, keys.size);
  };
  return up_to(0) - (window ? up_to(*window) : 0);
}

std::int64_t seen_pairs(const Kernel& kernel) {
  const auto* attributes = std::get_if<AttentionAttributes>(&kernel.attributes);
  if (!attributes || !attributes->causal) return square_of(kernel);
  const auto& q = kernel.operands[0].sizes;
  const std::int64_t keys = kernel.operands[1].sizes[1];
  if (kernel.place.size() == 4) {
    const auto& place = kernel.place;
    return checked_product({q[0], q[2], seen_pairs(place[2].ranges, place[3].ranges, *attributes)});
  }
  return checked_product({q[0], q[2], causal_pairs(q[1], keys, attributes->window.value_or(keys))});
}

// Beside tensors with heads, it has an operand as large as the score matrix.
bool keeps_scores(const Kernel& kernel) {
  const std::int64_t square = square_of(kernel);
  return std::ranges::any_of(kernel.operands, [&](const Operand& operand) {
    return operand.sizes.size() != 4 && element_count(operand) >= square;
  });
}

// Every row meets one expert: x [r, k], weight [e, k, n], or dy [r, n].
Flops expert_flops(const Kernel& kernel) {
  const Operand& first = kernel.operands[0];
  const Operand& second = kernel.operands[1];
  if (kernel.phase == Phase::InputGradient) {
    return Flops(checked_product({2, checked_product(second.sizes), first.sizes[1]}));
  }
  return Flops(checked_product({2, checked_product(first.sizes), second.sizes.back()}));
}

bool merges(const Kernel& kernel) {
  const bool can = kernel.kind == KernelKind::Attention ||
                   (kernel.kind == KernelKind::Matmul && kernel.phase != Phase::WeightGradient);
  return can && kernel.accumulate;
}

}  // namespace

Bytes bytes_per_element(BufferElement element, Precision precision) {
  switch (element) {
    case BufferElement::Real:
      // FP8 is a way to multiply: what is between kernels is BF16.
      return bytes_per_element(precision == Precision::FP8 ? Precision::BF16 : precision);
    case BufferElement::Index:
      return 4_B;
    case BufferElement::Single:
      return 4_B;
    case BufferElement::Byte:
      return 1_B;
    case BufferElement::Double:
      return 8_B;
  }
  return 0_B;
}

std::string_view to_text(KernelKind kind) {
  switch (kind) {
    case KernelKind::Load:
      return "load";
    case KernelKind::Embedding:
      return "embedding";
    case KernelKind::RowSums:
      return "row_sums";
    case KernelKind::LayerNorm:
      return "layer_norm";
    case KernelKind::RmsNorm:
      return "rms_norm";
    case KernelKind::Matmul:
      return "matmul";
    case KernelKind::Rope:
      return "rope";
    case KernelKind::Attention:
      return "attention";
    case KernelKind::Activation:
      return "activation";
    case KernelKind::GatedActivation:
      return "gated_activation";
    case KernelKind::Scale:
      return "scale";
    case KernelKind::Dropout:
      return "dropout";
    case KernelKind::Add:
      return "add";
    case KernelKind::Router:
      return "router";
    case KernelKind::RouterCounts:
      return "router_counts";
    case KernelKind::RouterRoom:
      return "router_room";
    case KernelKind::BalanceSums:
      return "balance_sums";
    case KernelKind::Balance:
      return "balance";
    case KernelKind::ExpertOrder:
      return "expert_order";
    case KernelKind::Dispatch:
      return "dispatch";
    case KernelKind::SortRows:
      return "sort_rows";
    case KernelKind::ExpertMatmul:
      return "expert_matmul";
    case KernelKind::Combine:
      return "combine";
    case KernelKind::Sum:
      return "sum";
    case KernelKind::LossLargest:
      return "loss_largest";
    case KernelKind::LossSums:
      return "loss_sums";
    case KernelKind::Loss:
      return "loss";
    case KernelKind::NormLargest:
      return "norm_largest";
    case KernelKind::NormSums:
      return "norm_sums";
    case KernelKind::ClipFactor:
      return "clip_factor";
    case KernelKind::AdamW:
      return "adamw";
  }
  return "";
}

std::string_view to_text(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::InputGradient:
      return "input_gradient";
    case Phase::WeightGradient:
      return "weight_gradient";
    case Phase::Step:
      return "step";
  }
  return "";
}

std::int64_t element_count(const Operand& operand) { return checked_product(operand.sizes); }

Operand dense_operand(const Extents& sizes, BufferElement element, std::int64_t offset) {
  Extents strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i > 1; --i) {
    strides[i - 2] = checked_multiply(strides[i - 1], sizes[i - 1]);
  }
  return {.offset = offset,
          .sizes = std::move(sizes),
          .strides = std::move(strides),
          .element = element};
}

bool is_dense(const Operand& operand) {
  std::int64_t stride = 1;
  for (std::size_t i = operand.sizes.size(); i-- > 0; stride *= operand.sizes[i]) {
    if (operand.sizes[i] != 1 && operand.strides[i] != stride) return false;
  }
  return true;
}

std::int64_t seen_pairs(const std::vector<ShardRange>& queries, const std::vector<ShardRange>& keys,
                        const AttentionAttributes& attributes) {
  if (!attributes.causal) return checked_multiply(size_of(queries), size_of(keys));
  std::int64_t pairs = 0;
  for (const ShardRange& some : queries) {
    for (const ShardRange& others : keys) {
      pairs = checked_add(pairs, causal_pairs(some, others, attributes.window));
    }
  }
  return pairs;
}

Flops flops_of(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::Matmul:
      return matmul_flops(kernel);
    case KernelKind::ExpertMatmul:
      return expert_flops(kernel);
    case KernelKind::Attention:
      return attention_flops(kernel, square_of(kernel), true);
    default:
      return Flops(0);
  }
}

double seen_share_of(const Kernel& kernel) {
  const std::int64_t square = square_of(kernel);
  return square == 0 ? 0 : static_cast<double>(seen_pairs(kernel)) / static_cast<double>(square);
}

Flops seen_flops_of(const Kernel& kernel) {
  if (kernel.kind != KernelKind::Attention) return flops_of(kernel);
  return attention_flops(kernel, seen_pairs(kernel), true);
}

Flops executed_flops_of(const Kernel& kernel) {
  if (kernel.kind != KernelKind::Attention) return flops_of(kernel);
  if (keeps_scores(kernel)) return attention_flops(kernel, square_of(kernel), false);
  return attention_flops(kernel, seen_pairs(kernel), true);
}

Bytes bytes_of(const Kernel& kernel, Precision precision) {
  Bytes total;
  for (const Operand& operand : kernel.operands) {
    const Bytes bytes = bytes_per_element(operand.element, precision) * element_count(operand);
    total += operand.written && merges(kernel) ? bytes + bytes : bytes;
  }
  return total;
}

}  // namespace meshwright
