#include "simulator/choices/stage_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace meshwright {
namespace {

// Devices of groups of each kind: every axis lies between two of these.
struct GroupSizes {
  std::int64_t queries, tensor, all, owners, expert_tensor, experts;
};

GroupSizes group_sizes(const PlanChoices& choices, const Model& model) {
  const std::int64_t etp = expert_tensor_degree(choices);
  return {.queries = devices_per_kv_head(choices, model),
          .tensor = choices.tp,
          .all = choices.tp * choices.dp,
          .owners = choices.tp * choices.shard.value_or(choices.dp),
          .expert_tensor = etp,
          .experts = etp * choices.ep};
}

std::set<std::int64_t> ends_of(const GroupSizes& groups) {
  return {1,
          groups.queries,
          groups.tensor,
          groups.all,
          groups.owners,
          groups.expert_tensor,
          groups.experts};
}

bool is_routed(const GroupSizes& groups, std::int64_t first, std::int64_t end) {
  return first >= groups.expert_tensor && end <= groups.experts;
}

std::string name_of(const GroupSizes& groups, std::int64_t first, std::int64_t end) {
  const bool routed = is_routed(groups, first, end);
  if (end <= groups.tensor) {
    const bool product = end <= groups.expert_tensor && groups.expert_tensor < groups.tensor;
    if (end <= groups.queries) return routed ? "queries_ep" : product ? "queries_etp" : "queries";
    if (routed) return "tp_ep";
    return product ? "etp" : "tp";
  }
  const bool shared = end <= groups.owners && groups.owners < groups.all;
  return fmt::format("{}{}", shared ? "shard" : "dp", routed ? "_ep" : "");
}

void add_context(StageAxes& stage, const ContextDegrees& context) {
  const auto add = [&](const char* name, std::int64_t size) {
    if (size == 1) return;
    stage.context.emplace_back(stage.axes.size());
    stage.owners.push_back(stage.context.back());
    stage.axes.push_back({name, size});
  };
  add("rings", context.rings);
  add("cp", context.ring);
  add("ulysses", context.heads);
}

}  // namespace

std::int64_t expert_tensor_degree(const PlanChoices& choices) {
  return choices.etp.value_or(choices.tp);
}

std::int64_t replicas_sharing_experts(const PlanChoices& choices) {
  return std::max<std::int64_t>(1, expert_tensor_degree(choices) * choices.ep / choices.tp);
}

std::int64_t devices_per_kv_head(const PlanChoices& choices, const Model& model) {
  const std::int64_t heads = size_of_dim(model, "kv_heads");
  const bool shares = choices.tensor == TensorForm::OneD && heads > 0 && choices.tp > heads;
  if (!shares || choices.tp % heads != 0) return 1;
  return size_of_dim(model, "queries_per_head") >= choices.tp / heads ? choices.tp / heads : 1;
}

std::optional<std::string> nesting_problem(const PlanChoices& choices, const Model& model) {
  const GroupSizes groups = group_sizes(choices, model);
  if (choices.tp % groups.expert_tensor != 0) {
    return fmt::format("etp={}: it does not divide tp={}", groups.expert_tensor, choices.tp);
  }
  if (groups.all % groups.experts != 0) {
    return fmt::format("ep={}: etp x ep = {} does not divide dp x tp = {}", choices.ep,
                       groups.experts, groups.all);
  }
  if (choices.shard && choices.dp % *choices.shard != 0) {
    return fmt::format("shard={}: it does not divide dp={}", *choices.shard, choices.dp);
  }
  const std::set<std::int64_t> ends = ends_of(groups);
  for (auto end = std::next(ends.begin()); end != ends.end(); ++end) {
    if (*end % *std::prev(end) == 0) continue;
    return fmt::format("ep={}: groups of {} and of {} devices do not fit into each other",
                       choices.ep, *std::prev(end), *end);
  }
  return std::nullopt;
}

StageAxes stage_axes(const PlanChoices& choices, const Model& model) {
  const GroupSizes groups = group_sizes(choices, model);
  const std::set<std::int64_t> ends = ends_of(groups);
  StageAxes stage;
  const auto add = [&](std::int64_t first, std::int64_t end, std::string name) {
    const AxisId axis(stage.axes.size());
    const bool tensor = end <= groups.tensor && name != "dp" && name != "shard";
    (tensor ? stage.tensor : stage.replicas).push_back(axis);
    if (!tensor && end <= groups.owners) stage.owners.push_back(axis);
    if (tensor && end > first && end <= groups.queries) stage.queries.push_back(axis);
    if (end > first && is_routed(groups, first, end)) stage.experts.push_back(axis);
    if (end > first && end <= groups.expert_tensor) stage.expert_tensor.push_back(axis);
    stage.axes.push_back({std::move(name), end / first});
  };
  // Degrees of one have their axis too.
  if (groups.all == groups.tensor || groups.all == groups.experts)
    add(groups.all, groups.all, "dp");
  for (auto end = std::prev(ends.end()); end != ends.begin() && *end > groups.tensor; --end) {
    add(*std::prev(end), *end, name_of(groups, *std::prev(end), *end));
  }
  if (choices.shard == 1 && choices.dp > 1) add(groups.tensor, groups.tensor, "shard");
  add_context(stage, context_degrees(choices));
  for (auto end = ends.find(groups.tensor); end != ends.begin(); --end) {
    add(*std::prev(end), *end, name_of(groups, *std::prev(end), *end));
  }
  if (groups.tensor == 1) add(1, 1, "tp");
  return stage;
}

}  // namespace meshwright
