#include "planner/search/set_bounds.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace meshwright {
namespace {

// Nothing is sooner because something is computed again, or goes to the host in between: of plans
// with all sets of kept tensors the one that keeps all of them there is the fastest, or where all
// that find room drop something the one that drops no more.
PlanChoices keeping_all(PlanChoices choices, RecomputeChoice dropped = {}) {
  choices.recompute = std::move(dropped);
  choices.offload_activations = false;
  choices.offloaded_layers = 0;
  return choices;
}

// What the first layers of chunks drop.
PlanChoices dropping_everywhere(PlanChoices choices) {
  choices.recompute.layers = 0;
  choices.recompute.others = {};
  return choices;
}

}  // namespace

std::variant<PlanBound, Reasons> SetBounds::of(Child& child) {
  const auto& [depth, choices, before] = child;
  if (depth >= Depth::Division) {
    PlanChoices plain = choices;
    plain.recompute = {};
    const auto& blocks = bounds_->blocks(plain);
    if (const auto* reasons = std::get_if<Reasons>(&blocks)) return *reasons;
    if (depth > Depth::Recompute && !bounds_->has_blocks(choices)) return Reasons();
  }
  if (depth == Depth::Recompute) return of_recompute(child.choices);
  return bound_of(child);
}

PlanBound SetBounds::bound_of(Child& child) {
  PlanChoices& choices = child.choices;
  switch (child.depth) {
    case Depth::Mesh:
      return {bounds_->of_mesh(choices), Bytes(), Bytes()};
    case Depth::Kernels:
      return {bounds_->of_any_microbatch(choices), Bytes(), Bytes()};
    case Depth::Microbatch:
      return {bounds_->of_kernels(choices, stagings(choices)), bounds_->largest_operand(choices),
              Bytes()};
    case Depth::Split:
      return {bounds_->of_split(choices, stagings(choices)), bounds_->largest_of_split(choices),
              Bytes()};
    case Depth::Sharing:
      return of_sharing(choices, child.before.step);
    case Depth::Place:
      return of_place(choices);
    case Depth::Division:
      return bounds_->of_any(choices);
    case Depth::Schedule:
      return of_schedule(choices);
    case Depth::Offload:
      return {bounds_->of_any_state(keeping_all(choices)),
              bounds_->state_of(space_.leanest(choices)), Bytes()};
    case Depth::Memory:
      return of_memory(choices);
    case Depth::Zero:
      return {state_transfers(choices).least_step(*child.before.ends),
              bounds_->state_of(space_.leanest_optimizer(choices)), Bytes()};
    case Depth::State:
      return of_state(choices);
    case Depth::Lanes: {
      const auto buckets = bounded_buckets(choices);
      return {buckets.empty() ? Seconds(0) : buckets.front().least, Bytes(), Bytes()};
    }
    case Depth::Played:
    case Depth::Recompute:
      return {};
    case Depth::Decided:
      return bounds_->least_of(choices);
    case Depth::Plan:
      return bounds_->of(choices);
  }
  return {};
}

const std::vector<Staging>& SetBounds::stagings(const PlanChoices& choices) {
  const auto [entry, added] = stagings_.try_emplace(choices.pp);
  if (added || !space_.stages_alike()) entry->second = space_.stagings(choices);
  return entry->second;
}

// In the largest buckets there is least to transfer.
StateTransfers SetBounds::state_transfers(const PlanChoices& choices) {
  return bounds_->state_transfers(space_.in_largest_buckets(choices));
}

// What is gathered in the largest buckets leaves segments that most finds room in.
PlanChoices SetBounds::in_any_bucket(const PlanChoices& choices) const {
  return choices.zero == 3 ? space_.in_largest_buckets(choices) : choices;
}

// `known`: that it takes so long.
PlanBound SetBounds::of_sharing(const PlanChoices& choices, Seconds known) {
  const std::array degrees = {choices.dp, choices.tp, choices.pp, choices.cp};
  if (degrees != placed_ || !space_.stages_alike()) places_ = space_.node_shares(choices);
  placed_ = degrees;
  std::optional<Seconds> least;
  PlanChoices placed = choices;
  for (const auto& place : places_) {
    placed.place = place;
    const Seconds own = bounds_->of_division(placed);
    least = std::min(least.value_or(own), own);
    if (own <= known) break;
  }
  return {least.value_or(Seconds(0)), Bytes(), Bytes()};
}

// Of the ZeRO stages whose state fits the one that has least to transfer.
PlanBound SetBounds::of_place(const PlanChoices& choices) {
  std::optional<PlanBound> least;
  const Seconds kernels = bounds_->of_division(choices, stagings(choices));
  const Bytes used = bounds_->largest_kernel(choices);
  for (const PlanChoices& one : space_.zeros(choices)) {
    const Bytes bytes = bounds_->state_of(space_.leanest_optimizer(one)) + used;
    const bool fits = bytes <= room_;
    const Seconds step = fits ? std::max(kernels, state_transfers(one).least_step()) : Seconds(0);
    const PlanBound own{step, bytes, Bytes()};
    if (!least || (fits ? least->bytes > room_ || own.step < least->step : bytes < least->bytes)) {
      least = own;
    }
    if (fits && own.step == kernels) break;  // none has less
  }
  return least.value_or(PlanBound{});
}

// Of the ZeRO stages whose state fits the one that ends first.
PlanBound SetBounds::of_schedule(const PlanChoices& choices) {
  PlanChoices divided = choices;
  divided.schedule = {};
  divided.virtual_stages = 1;
  divided.layers = {};
  if (divided != divided_) {
    divided_ = std::move(divided);
    transfers_.clear();
    for (const PlanChoices& one : space_.zeros(divided_)) {
      if (bounds_->state_of(space_.leanest_optimizer(one)) > room_) continue;
      transfers_.push_back(state_transfers(one));
    }
  }
  const StageEnds ends = bounds_->least_ends(choices);
  std::optional<Seconds> least;
  for (const StateTransfers& transfers : transfers_) {
    const Seconds own = transfers.least_step(ends);
    least = std::min(least.value_or(own), own);
  }
  return {std::max(bounds_->step_with(ends), least.value_or(Seconds(0))), Bytes(), Bytes()};
}

// Before blocks are lowered that recompute.
PlanBound SetBounds::of_state(const PlanChoices& choices) {
  const PlanChoices lean = space_.leanest_optimizer(choices);
  const Bytes bytes = bounds_->least_bytes(in_any_bucket(lean));
  if (bytes > room_) return {Seconds(0), bytes, Bytes()};
  const PlanChoices one = keeping_all(choices, bounds_->least_drops(lean));
  return {bounds_->of_schedule(one), bytes, Bytes()};
}

PlanBound SetBounds::of_memory(const PlanChoices& choices) {
  const PlanChoices lean = space_.leanest(choices);
  const Bytes bytes = bounds_->least_bytes(in_any_bucket(lean));
  if (bytes > room_) return {Seconds(0), bytes, Bytes()};
  const PlanChoices one = keeping_all(choices, bounds_->least_drops(lean));
  return {bounds_->of_schedule(one), bytes, Bytes(), 0, bounds_->ends_of(keeping_all(choices))};
}

std::vector<BoundedPlan> SetBounds::bounded_buckets(const PlanChoices& choices) {
  const PlanChoices fastest =
      keeping_all(choices, bounds_->forced_drops(space_.leanest_optimizer(choices)));
  std::vector<BoundedPlan> plans;
  for (PlanChoices& one : space_.buckets(fastest)) {
    const Seconds least = bounds_->least_step_of(one);
    plans.push_back({std::move(one), least});
  }
  std::ranges::stable_sort(plans, {}, &BoundedPlan::least);
  return plans;
}

// What a plan needs if its optimizer is where it leaves most room, or as far as that is known if it
// is too much. None: it cannot be planned.
std::optional<Bytes> SetBounds::lean_bytes(const PlanChoices& choices) {
  const PlanChoices lean = in_any_bucket(space_.leanest_optimizer(choices));
  const Bytes least = bounds_->least_bytes(lean);
  if (least > room_) return least;
  if (!bounds_->has_blocks(choices)) return std::nullopt;
  return bounds_->bytes_of(lean);
}

// Sets are mixed where one of them finds room by itself. What both kinds of layers need grows or
// falls evenly with how many of the first kind there are, so where all of these find room, no mix
// does that has fewer than another that does not.
std::optional<PlanChoices> SetBounds::first_with_room(const PlanChoices& choices) {
  const auto finds_room = [&](const PlanChoices& one) {
    const auto bytes = lean_bytes(one);
    return bytes && *bytes <= room_;
  };
  auto next = space_.dropping_more(choices);
  if (!next || !finds_room(dropping_everywhere(*next))) return std::nullopt;
  std::vector<PlanChoices> mixes;
  for (; next; next = space_.dropping_more(*next)) mixes.push_back(*next);
  const auto first = std::ranges::partition_point(mixes, std::not_fn(finds_room));
  return first == mixes.end() ? std::nullopt : std::optional(*first);
}

std::variant<PlanBound, Reasons> SetBounds::of_recompute(PlanChoices& choices) {
  auto bytes = lean_bytes(choices);
  if (!bytes) return Reasons();
  if (*bytes > room_) {
    const auto first = first_with_room(choices);
    if (!first) return PlanBound{Seconds(0), *bytes, Bytes()};
    choices = *first;
    bytes = lean_bytes(choices);
  }
  return PlanBound{bounds_->of_any_state(choices), *bytes, Bytes()};
}

}  // namespace meshwright
