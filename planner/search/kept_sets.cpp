#include "planner/search/kept_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "planner/bound/layer_ops.h"
#include "planner/search/kept_front.h"
#include "planner/search/solved_sets.h"

namespace meshwright {
namespace {

// Elimination remembers no more decisions at a time: about 50 MB, and half a second.
constexpr std::size_t kMostDecisions = std::size_t{1} << 16;
// Sets of so many tensors are at most as many.
constexpr std::size_t kFewTensors = 16;
// The solver is asked at so many even steps from nothing kept to all of it.
constexpr std::int64_t kSteps = 16;

// Those that no straight line between two others passes below, of a front by falling bytes.
std::vector<KeptSet> hull_of(const std::vector<KeptSet>& front) {
  const auto slope = [](const KeptSet& from, const KeptSet& to) {
    return (to.seconds - from.seconds) / static_cast<double>((from.bytes - to.bytes).value());
  };
  std::vector<KeptSet> hull;
  for (const KeptSet& set : front) {
    while (hull.size() >= 2 &&
           slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), set)) {
      hull.pop_back();
    }
    hull.push_back(set);
  }
  return hull;
}

Bytes all_kept(const std::vector<LayerOp>& ops) {
  Bytes all;
  for (const LayerOp& op : ops) all += op.kept;
  return all;
}

// The most that is kept at each step but the last, which keeps all.
std::vector<Bytes> steps_of(Bytes all) {
  std::vector<Bytes> steps;
  for (std::int64_t step = kSteps; step-- > 0;) {
    steps.push_back(all / kSteps * step);
  }
  return steps;
}

RecomputeChoice choice_of(const std::vector<LayerOp>& ops, const KeptSet& set) {
  std::vector<std::string> dropped;
  const auto drop = [&](const LayerOp& op) {
    dropped.insert(dropped.end(), op.tensors.begin(), op.tensors.end());
  };
  for (const std::size_t op : set.dropped) drop(ops[op]);
  for (const LayerOp& op : ops) {
    if (op.kept == Bytes()) drop(op);
  }
  std::ranges::sort(dropped);
  return {.kind = Recompute::Drop, .layers = 0, .dropped = std::move(dropped)};
}

// The largest: small ones are not worth a choice of their own.
std::vector<bool> largest_few(const std::vector<LayerOp>& ops) {
  std::vector<std::size_t> order;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op].kept > Bytes()) order.push_back(op);
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t op) { return ops[op].kept; });
  std::vector<bool> few(ops.size(), false);
  for (std::size_t i = 0; i < std::min(order.size(), kFewTensors); ++i) few[order[i]] = true;
  return few;
}

struct FoundSets {
  std::vector<KeptSet> sets;
  double open_share = 0;
  std::string note;
};

FoundSets solved(const std::vector<LayerOp>& ops, const Solver& solver) {
  // The last digits of a proof take longest, and what is left of it is in the gap. Work is counted,
  // so that every machine comes as far.
  const SolveLimits limits{.deterministic_time = 0.5, .relative_gap = 0.003};
  double work = 0;
  for (const LayerOp& op : ops) work += op.seconds;
  FoundSets found{.sets = {kept_set(ops, {})}, .open_share = 0, .note = ""};
  for (SolvedSet& one : solved_sets(ops, steps_of(all_kept(ops)), solver, limits)) {
    // A backward takes at least as long as its forward.
    const double share = (one.set.seconds - one.least_seconds) / (2 * work + one.set.seconds);
    found.open_share = std::max(found.open_share, share);
    if (found.sets.back().bytes > one.set.bytes) found.sets.push_back(std::move(one.set));
  }
  found.sets = hull_of(found.sets);
  return found;
}

FoundSets found_sets(const std::vector<LayerOp>& ops,
                     const std::vector<std::filesystem::path>& solver_folders) {
  if (auto front = kept_front(ops, droppable(ops), kMostDecisions)) return {hull_of(*front)};
  const auto solver = load_solver(solver_folders);
  if (const auto* loaded = std::get_if<Solver>(&solver)) return solved(ops, *loaded);
  const auto tensors = std::ranges::count(droppable(ops), true);
  return {hull_of(*kept_front(ops, largest_few(ops), kMostDecisions)), 0,
          fmt::format("a layer keeps {} tensors that depend on each other in too many ways: which "
                      "to compute again is searched for the {} largest only ({})",
                      tensors, kFewTensors, std::get<std::string>(solver))};
}

}  // namespace

KeptSets kept_sets(const PlanChoices& choices, const BatchChoice& batch, const Setting& setting,
                   const std::vector<std::filesystem::path>& solver_folders) {
  const std::vector<LayerOp> ops = layer_ops(choices, batch, setting);
  FoundSets found = found_sets(ops, solver_folders);
  KeptSets kept{.sets = {}, .open_share = found.open_share, .note = std::move(found.note)};
  for (const KeptSet& set : found.sets) {
    if (!set.dropped.empty()) kept.sets.push_back(choice_of(ops, set));
  }
  return kept;
}

}  // namespace meshwright
