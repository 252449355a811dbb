#include "planner/search/lean_search.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "costmodel/base/input_error.h"
#include "planner/search/open_sets.h"

namespace meshwright {

bool overfills_host(const PlanBound& bound, const PlanChoices& choices, const Cluster& cluster) {
  const NodeType& type = cluster.node_types.front();
  if (bound.host_bytes == Bytes() || cluster.node_types.size() > 1) return false;
  const std::int64_t inside = choices.place.empty() ? std::min(type.devices, device_count(choices))
                                                    : devices_in_node(choices);
  return !type.host || bound.host_bytes * inside > type.host->memory.value;
}

LeanSearch::LeanSearch(const SearchSpace& space, const BatchChoice& batch, const Setting& setting,
                       Bounds& bounds, HostsUsed hosts, Limits limits, std::stop_token stop)
    : space_(space),
      batch_(batch),
      setting_(setting),
      bounds_(bounds),
      trials_(batch, setting, stop),
      hosts_(hosts),
      limits_(limits),
      stop_(std::move(stop)) {
  for (const Block& block : setting.model.blocks) ops_ += block.count * std::ssize(block.ops);
  for (PlanChoices& mesh : space_.meshes(stop_)) push(Depth::Mesh, std::move(mesh), {});
}

LeanSearch::Kind LeanSearch::kind_of(const PlanChoices& choices) {
  return {choices.tensor,
          choices.tp,
          choices.pp,
          choices.cp,
          choices.ep,
          choices.zero,
          choices.offload_activations,
          choices.offload_optimizer};
}

bool LeanSearch::is_later(const Open& a, const Open& b) {
  return a.expected != b.expected ? a.expected > b.expected : is_before(b.node, a.node);
}

double LeanSearch::expected_bytes(const Node& node) const {
  const auto known = growth_.find(kind_of(node.choices));
  const bool is_known = node.depth >= Depth::Played && known != growth_.end();
  return static_cast<double>(node.bound.bytes.value()) *
         (is_known ? known->second.factor : typical_growth_);
}

void LeanSearch::push(Depth depth, PlanChoices choices, PlanBound bound) {
  Open open{{depth, std::move(choices), std::move(bound)}};
  open.expected = expected_bytes(open.node);
  open_.push_back(std::move(open));
  std::ranges::push_heap(open_, is_later);
}

// The state that takes least memory; and with ZeRO decided.
PlanChoices LeanSearch::leanest(PlanChoices partial, bool any_zero) const {
  const bool optimizer = partial.offload_optimizer;
  PlanChoices lean =
      any_zero ? space_.leanest(std::move(partial)) : space_.leanest_optimizer(std::move(partial));
  if (!uses_hosts()) lean.offload_optimizer = optimizer;
  // What is gathered in the largest buckets leaves segments that most finds room in.
  return lean.zero == 3 ? space_.in_largest_buckets(lean) : lean;
}

std::int64_t LeanSearch::microbatches(const PlanChoices& choices) const {
  return batch_.global_batch / (choices.dp * choices.microbatch);
}

// The smallest, but not so small that a step has very many.
std::vector<PlanChoices> LeanSearch::small_microbatches(const PlanChoices& mesh) const {
  constexpr std::int64_t kMany = 1024;
  const std::vector<PlanChoices> all = space_.microbatches(mesh);
  if (all.empty()) return {};
  const auto few =
      std::ranges::find_if(all, [&](const PlanChoices& one) { return microbatches(one) <= kMany; });
  return {few == all.end() ? all.front() : *few};
}

bool LeanSearch::takes_long(const PlanChoices& choices) const {
  constexpr std::int64_t kMostOps = 1'000'000;
  return microbatches(choices) > kMostOps / (ops_ / choices.pp + 1);
}

// What it needs at the least, and no less than what it was made of.
PlanBound LeanSearch::bound_of(const Node& from, Depth depth, const PlanChoices& choices) {
  Bytes bytes;
  if (depth == Depth::Microbatch) bytes = bounds_.largest_operand(choices);
  if (depth == Depth::Sharing) bytes = bounds_.state_of(leanest(choices, true));
  if (depth == Depth::Place) {
    bytes = bounds_.state_of(leanest(choices, true)) + bounds_.largest_kernel(choices);
  }
  if (depth == Depth::Memory) bytes = bounds_.least_bytes(leanest(choices, true));
  if (depth == Depth::Played || depth == Depth::Recompute) {
    bytes = bounds_.least_bytes(leanest(choices, false));
  }
  return {Seconds(0), std::max(bytes, from.bound.bytes), Bytes()};
}

void LeanSearch::push_each(const Node& from, Depth depth, std::vector<PlanChoices> all) {
  for (PlanChoices& one : all) {
    if (stop_.stop_requested()) return;
    ++sets_;
    try {
      PlanBound bound = bound_of(from, depth, one);
      push(depth, std::move(one), std::move(bound));
    } catch (const InputError&) {
      continue;  // sizes beyond 64 bits
    }
  }
}

// With more chunks a stage more is kept at a time.
std::vector<PlanChoices> LeanSearch::schedules(const PlanChoices& partial) {
  PlanChoices plain = partial;
  plain.recompute = {};
  if (!std::holds_alternative<BlockBounds>(bounds_.blocks(plain))) return {};
  std::vector<PlanChoices> all = space_.schedules(partial);
  const auto one_chunk = [](const PlanChoices& one) { return one.virtual_stages == 1; };
  if (std::ranges::any_of(all, one_chunk)) std::erase_if(all, std::not_fn(one_chunk));
  std::vector<PlanChoices> ways;
  for (const PlanChoices& scheduled : all) {
    for (PlanChoices& one : space_.layerings(scheduled, bounds_)) ways.push_back(std::move(one));
  }
  return ways;
}

void LeanSearch::add_plan(const Node& from, const PlanChoices& choices, Bytes room) {
  ++sets_;
  PlanBound bound = bounds_.least_of(choices);
  bound.bytes = std::max(bound.bytes, from.bound.bytes);
  if (bound.bytes > room) return;
  const bool overfills = overfills_host(bound, choices, setting_.cluster);
  if (!overfills || hosts_ == HostsUsed::Any) push(Depth::Decided, choices, std::move(bound));
}

void LeanSearch::decide(const Node& node, Bytes room) {
  const PlanChoices& choices = node.choices;
  const auto first = [](std::vector<PlanChoices> all) {
    all.resize(std::min<std::size_t>(all.size(), 1));
    return all;
  };
  const auto without_hosts = [&](std::vector<PlanChoices> all) {
    std::erase_if(all, [&](const PlanChoices& one) {
      return !uses_hosts() && (one.offload_activations || one.offload_optimizer);
    });
    return all;
  };
  switch (node.depth) {
    case Depth::Mesh:
    case Depth::Kernels:
      return push_each(node, Depth::Microbatch, small_microbatches(choices));
    case Depth::Microbatch:
      return push_each(node, Depth::Split, space_.splits(choices));
    case Depth::Split:
      return push_each(node, Depth::Sharing, space_.sharings(choices));
    case Depth::Sharing: {
      // The last has most devices of tp in a node.
      std::vector<PlanChoices> places = space_.places(choices);
      std::ranges::reverse(places);
      return push_each(node, Depth::Place, first(std::move(places)));
    }
    case Depth::Place:
    case Depth::Division:
      return push_each(node, Depth::Schedule, schedules(choices));
    case Depth::Schedule:
    case Depth::Offload:
      return push_each(node, Depth::Memory, without_hosts(space_.activation_offloads(choices)));
    case Depth::Memory:
    case Depth::Zero:
    case Depth::State:
    case Depth::Lanes:
      return push_each(node, Depth::Played, space_.zeros(choices));
    case Depth::Played:
      return push_each(node, Depth::Recompute, space_.recomputes(choices));
    case Depth::Recompute:
      if (!bounds_.has_blocks(choices)) return;
      for (const PlanChoices& one : without_hosts(space_.optimizer_offloads(choices))) {
        for (const PlanChoices& plan : space_.buckets(one)) add_plan(node, plan, room);
      }
      return;
    case Depth::Decided:
    case Depth::Plan:
      return;
  }
}

void LeanSearch::learn(const Node& node, Bytes needed) {
  Growth& own = growth_[kind_of(node.choices)];
  own.factor = std::max(1.0, needed / node.bound.bytes);
  ++own.plans;
  double all = 0;
  for (const auto& [kind, growth] : growth_) all += growth.factor;
  typical_growth_ = all / static_cast<double>(growth_.size());
}

std::optional<LeanSearch::Found> LeanSearch::next(Bytes room) {
  constexpr double kMuch = 1.001;
  while (!open_.empty() && sets_ < limits_.sets && simulated_ < limits_.simulated) {
    if (stop_.stop_requested()) return std::nullopt;
    std::ranges::pop_heap(open_, is_later);
    Open open = std::move(open_.back());
    open_.pop_back();
    const Node& node = open.node;
    if (node.bound.bytes > room) continue;
    // More may have been learnt since.
    if (expected_bytes(node) > kMuch * open.expected) {
      push(node.depth, node.choices, node.bound);
      continue;
    }
    if (node.depth != Depth::Decided) {
      decide(node, room);
      continue;
    }
    if (growth_[kind_of(node.choices)].plans >= limits_.of_kind) continue;
    if (takes_long(node.choices)) {
      left_some_ = true;
      continue;
    }
    TriedPlan tried = trials_.of(node.choices, node.bound.fullest_stage, room);
    if (std::holds_alternative<Stopped>(tried)) return std::nullopt;
    if (std::holds_alternative<Reasons>(tried)) continue;
    ++simulated_;
    if (const auto* large = std::get_if<TooLarge>(&tried)) learn(node, large->needed);
    auto* made = std::get_if<SimulatedPlan>(&tried);
    if (!made) continue;
    learn(node, Report::needed(made->report.fullest()));
    return Found{node.choices, node.bound.step, std::move(*made)};
  }
  return std::nullopt;
}

}  // namespace meshwright
