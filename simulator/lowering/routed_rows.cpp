#include "simulator/lowering/routed_rows.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

std::int64_t experts_of(const PlannedGraph& planned, std::size_t dispatch) {
  const TensorId rows = planned.graph.ops[dispatch].outputs[0];
  for (const std::size_t reader : planned.readers[rows.index()]) {
    const GraphOp& op = planned.graph.ops[reader];
    if (op.kind != OpKind::ExpertMatmul) continue;
    const DimId experts = planned.graph.weights[op.weights[0].index()].dims[0];
    return planned.graph.dims[experts.index()].size;
  }
  return 1;
}

}  // namespace

std::optional<std::int64_t> rows_of_expert(const Plan& plan, std::int64_t choices,
                                           std::int64_t experts) {
  if (!plan.expert_capacity) return std::nullopt;
  const double share =
      static_cast<double>(checked_multiply(plan.sequence, choices)) / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::ceil(share * *plan.expert_capacity));
}

RoutedRows routed_rows(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                       std::size_t dispatch) {
  const Shards shards(planned, plan, placement);
  const Extents sizes = shards.sizes(planned.op(dispatch).layouts.outputs[0]);  // [.., choices, f]
  RoutedRows rows{.axes = planned.expert_axes(dispatch)};
  rows.senders = placement.mesh().size(rows.axes);
  rows.place = placement.index_along(rows.axes);
  rows.experts = experts_of(planned, dispatch);
  rows.own_experts = rows.experts / rows.senders;
  rows.first_expert = rows.place * rows.own_experts;
  rows.choices = sizes[sizes.size() - 2];
  rows.tokens = checked_product(std::span(sizes.data(), sizes.size() - 2));
  rows.expected = rows.room = rows.sent();
  rows.counted = rows.senders > 1 || plan.expert_capacity;
  if (!rows.counted) return rows;
  // By sample, so that rows grow with the samples of a micro-batch.
  const std::int64_t samples = std::max<std::int64_t>(plan.micro_batch, 1);
  const std::int64_t tokens = rows.tokens / samples;
  const double kept = std::min(plan.expert_capacity.value_or(1), 1.0);
  const double fullest = rows.senders > 1 ? plan.expert_imbalance : 1;
  std::int64_t most =
      checked_product({rows.senders, tokens, std::min(rows.choices, rows.own_experts)});
  if (const auto by_expert = rows_of_expert(plan, rows.choices, rows.experts)) {
    most = std::min(most, checked_product({rows.senders, rows.own_experts, *by_expert}));
  }
  const double share = static_cast<double>(checked_multiply(tokens, rows.choices)) * kept * fullest;
  rows.room = checked_multiply(samples, most);
  rows.expected =
      checked_multiply(samples, std::min(most, static_cast<std::int64_t>(std::ceil(share))));
  return rows;
}

}  // namespace meshwright
