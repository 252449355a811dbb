#include "simulator/choices/stage_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace meshwright {
namespace {

// Devices of groups of each kind: every axis lies between two of these.
struct GroupSizes {
  std::int64_t queries, tensor, keys, heads, ring, context, all, owners, expert_tensor, experts;
};

GroupSizes group_sizes(const PlanChoices& choices, const Model& model) {
  const std::int64_t etp = expert_tensor_degree(choices);
  const ContextDegrees context = context_degrees(choices);
  const std::int64_t sequence = choices.tp * choices.cp;
  // Rings that cannot be are refused elsewhere.
  const bool rings = context.rings * context.ring * context.heads == choices.cp;
  const std::int64_t heads = rings ? choices.tp * context.heads : sequence;
  return {.queries = devices_per_kv_head(choices, model),
          .tensor = choices.tp,
          .keys = rings ? choices.tp * parts_per_kv_head(choices, model) : choices.tp,
          .heads = heads,
          .ring = rings ? heads * context.ring : sequence,
          .context = sequence,
          .all = sequence * choices.dp,
          .owners = sequence * choices.shard.value_or(choices.dp),
          .expert_tensor = etp,
          .experts = etp * choices.ep};
}

std::set<std::int64_t> ends_of(const GroupSizes& groups) {
  return {1,
          groups.queries,
          groups.tensor,
          groups.keys,
          groups.heads,
          groups.ring,
          groups.context,
          groups.all,
          groups.owners,
          groups.expert_tensor,
          groups.experts};
}

bool is_context(const GroupSizes& groups, std::int64_t first, std::int64_t end) {
  return end > first && first >= groups.tensor && end <= groups.context;
}

// Whether the devices that share experts out are some of those that share heads out, or some of a
// ring: what cuts the sequence is one axis each.
bool cuts_context(const GroupSizes& groups) {
  const std::set<std::int64_t> ends = {groups.tensor, groups.keys, groups.heads, groups.ring,
                                       groups.context};
  return groups.experts > groups.tensor && groups.experts < groups.context &&
         !ends.contains(groups.experts);
}

bool is_routed(const GroupSizes& groups, std::int64_t first, std::int64_t end) {
  return first >= groups.expert_tensor && end <= groups.experts;
}

std::string name_of(const GroupSizes& groups, std::int64_t first, std::int64_t end) {
  const bool routed = is_routed(groups, first, end);
  if (is_context(groups, first, end)) {
    if (end <= groups.keys) return "ulysses_queries";
    if (end <= groups.heads) return "ulysses";
    return end <= groups.ring ? "cp" : "rings";
  }
  if (end <= groups.tensor) {
    const bool product = end <= groups.expert_tensor && groups.expert_tensor < groups.tensor;
    if (end <= groups.queries) return routed ? "queries_ep" : product ? "queries_etp" : "queries";
    if (routed) return "tp_ep";
    return product ? "etp" : "tp";
  }
  const bool shared = end <= groups.owners && groups.owners < groups.all;
  return fmt::format("{}{}", shared ? "shard" : "dp", routed ? "_ep" : "");
}

}  // namespace

std::int64_t expert_tensor_degree(const PlanChoices& choices) {
  return choices.etp.value_or(choices.tp);
}

std::int64_t replicas_sharing_experts(const PlanChoices& choices) {
  const std::int64_t parts = choices.tp * choices.cp;
  return std::max<std::int64_t>(1, expert_tensor_degree(choices) * choices.ep / parts);
}

std::int64_t devices_per_kv_head(const PlanChoices& choices, const Model& model) {
  const std::int64_t heads = size_of_dim(model, "kv_heads");
  const bool shares = choices.tensor == TensorForm::OneD && heads > 0 && choices.tp > heads;
  if (!shares || choices.tp % heads != 0) return 1;
  return size_of_dim(model, "queries_per_head") >= choices.tp / heads ? choices.tp / heads : 1;
}

std::int64_t parts_per_kv_head(const PlanChoices& choices, const Model& model) {
  const std::int64_t all = size_of_dim(model, "kv_heads"), parts = context_degrees(choices).heads;
  if (all == 0 || choices.tp * parts <= all) return 1;
  const std::int64_t own = std::max<std::int64_t>(1, all / choices.tp);
  const bool even = (all % choices.tp == 0 || choices.tp % all == 0) && parts % own == 0;
  const std::int64_t sharing = devices_per_kv_head(choices, model) * (parts / own);
  return even && sharing <= size_of_dim(model, "queries_per_head") ? parts / own : 1;
}

std::optional<std::string> nesting_problem(const PlanChoices& choices, const Model& model) {
  const GroupSizes groups = group_sizes(choices, model);
  if (choices.tp % groups.expert_tensor != 0) {
    return fmt::format("etp={}: it does not divide tp={}", groups.expert_tensor, choices.tp);
  }
  if (groups.all % groups.experts != 0) {
    return fmt::format("ep={}: etp x ep = {} does not divide dp x {}tp = {}", choices.ep,
                       groups.experts, choices.cp > 1 ? "cp x " : "", groups.all);
  }
  if (cuts_context(groups)) {
    return fmt::format("ep={}: etp x ep = {} ends within what shares a sequence out (tp x cp = {})",
                       choices.ep, groups.experts, groups.context);
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
    const bool context = is_context(groups, first, end);
    (tensor ? stage.tensor : context ? stage.context : stage.replicas).push_back(axis);
    if (!tensor && end <= groups.owners) stage.owners.push_back(axis);
    if (tensor && end > first && end <= groups.queries) stage.queries.push_back(axis);
    if (end > first && is_routed(groups, first, end)) stage.experts.push_back(axis);
    if (end > first && end <= groups.expert_tensor) stage.expert_tensor.push_back(axis);
    stage.axes.push_back({std::move(name), end / first});
  };
  // Degrees of one have their axis too.
  if (groups.all == groups.context || groups.all == groups.experts)
    add(groups.all, groups.all, "dp");
  const auto add_down_to = [&](std::set<std::int64_t>::const_iterator end, std::int64_t least) {
    for (; end != ends.begin() && *end > least; --end) {
      add(*std::prev(end), *end, name_of(groups, *std::prev(end), *end));
    }
  };
  add_down_to(std::prev(ends.end()), groups.context);
  if (choices.shard == 1 && choices.dp > 1) add(groups.context, groups.context, "shard");
  add_down_to(ends.find(groups.context), 1);
  if (groups.tensor == 1) add(1, 1, "tp");
  return stage;
}

}  // namespace meshwright
