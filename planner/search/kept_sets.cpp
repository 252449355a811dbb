#include "planner/search/kept_sets.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>

#include "planner/bound/layer_ops.h"

namespace meshwright {
namespace {

// Sets are numbers with a bit for each tensor: more are not tried one by one.
constexpr std::size_t kMostChoices = 16;

struct KeptSet {
  std::uint32_t dropped = 0;
  double bytes = 0, seconds = 0;  // kept; computed again
};

// Ops that must run again where these are dropped.
double rerun_seconds(const std::vector<LayerOp>& ops, const std::vector<std::size_t>& choosable,
                     std::uint32_t dropped) {
  std::vector<bool> missing(ops.size()), reruns(ops.size(), false);
  for (std::size_t op = 0; op < ops.size(); ++op) missing[op] = ops[op].kept == Bytes();
  for (std::size_t c = 0; c < choosable.size(); ++c) {
    if ((dropped >> c & 1) == 0) continue;
    missing[choosable[c]] = true;
    reruns[choosable[c]] = true;
  }
  double seconds = 0;
  for (std::size_t op = ops.size(); op-- > 0;) {
    if (!reruns[op]) continue;
    seconds += ops[op].seconds;
    for (const std::size_t input : ops[op].inputs) {
      if (missing[input]) reruns[input] = true;
    }
  }
  return seconds;
}

// Those that no straight line between two others passes below, by falling bytes.
std::vector<KeptSet> hull_of(std::vector<KeptSet> sets) {
  std::ranges::sort(sets, [](const KeptSet& a, const KeptSet& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.dropped < b.dropped;
  });
  const auto slope = [](const KeptSet& from, const KeptSet& to) {
    return (to.seconds - from.seconds) / (from.bytes - to.bytes);
  };
  std::vector<KeptSet> hull;
  for (const KeptSet& set : sets) {
    if (!hull.empty() && hull.back().bytes == set.bytes) continue;
    while (!hull.empty() && hull.back().seconds >= set.seconds) hull.pop_back();
    while (hull.size() >= 2 &&
           slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), set)) {
      hull.pop_back();
    }
    hull.push_back(set);
  }
  return hull;
}

}  // namespace

std::vector<RecomputeChoice> kept_sets(const PlanChoices& choices, const BatchChoice& batch,
                                       const Setting& setting) {
  const std::vector<LayerOp> ops = layer_ops(choices, batch, setting);
  std::vector<std::size_t> choosable;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op].kept > Bytes()) choosable.push_back(op);
  }
  // The largest first: small ones are not worth a choice of their own.
  std::ranges::stable_sort(choosable,
                           [&](std::size_t a, std::size_t b) { return ops[a].kept > ops[b].kept; });
  choosable.resize(std::min(choosable.size(), kMostChoices));
  std::vector<KeptSet> sets;
  double all = 0;
  for (const LayerOp& op : ops) all += static_cast<double>(op.kept.value());
  for (std::uint32_t dropped = 0; dropped < (1u << choosable.size()); ++dropped) {
    KeptSet set{dropped, all, rerun_seconds(ops, choosable, dropped)};
    for (std::size_t c = 0; c < choosable.size(); ++c) {
      if (dropped >> c & 1) set.bytes -= static_cast<double>(ops[choosable[c]].kept.value());
    }
    sets.push_back(set);
  }
  std::vector<RecomputeChoice> choices_found;
  for (const KeptSet& set : hull_of(std::move(sets))) {
    if (set.dropped == 0) continue;
    RecomputeChoice choice{.kind = Recompute::Drop, .layers = 0};
    const auto drop = [&](const LayerOp& op) {
      choice.dropped.insert(choice.dropped.end(), op.tensors.begin(), op.tensors.end());
    };
    for (std::size_t c = 0; c < choosable.size(); ++c) {
      if (set.dropped >> c & 1) drop(ops[choosable[c]]);
    }
    for (const LayerOp& op : ops) {
      if (op.kept == Bytes()) drop(op);
    }
    std::ranges::sort(choice.dropped);
    choices_found.push_back(std::move(choice));
  }
  return choices_found;
}

}  // namespace meshwright
