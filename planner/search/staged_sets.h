#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/search/open_sets.h"

namespace meshwright {

// Plans whose layers are all alike first; then those of which some layers keep, or have on the
// host, other things than the rest. The latter are many for each of the former and cost a little
// less or a little more: whoever gives up on them must have looked at what they are made of. As
// long as none was found that fits, whatever costs least is next: where the former find no room,
// the latter may be much cheaper than the next of them.
class StagedSets {
 public:
  // Of each kind so many plans are looked at.
  StagedSets(const Expectation& expectation, std::size_t most)
      : most_(static_cast<std::int64_t>(most)), alike_(expectation), mixed_(expectation) {}

  void push(Node node) {
    OpenSets& sets = of(node);
    sets.push(std::move(node));
  }
  // That costs least; null: there are none.
  const Node* least() { return with_least().least(); }
  // There must be one.
  Node pop_least() { return with_least().pop_least(); }
  // As OpenSets::next. `found`: there is a plan that fits, so that it need not go on for ever.
  std::optional<Node> next(double enough, std::optional<double> promising, bool found) {
    const bool mixed_first = !found && &with_least() == &mixed_;
    if (!mixed_first && !is_given_up(alike_, found)) {
      if (auto node = alike_.next(enough, promising)) return node;
    }
    if (is_given_up(mixed_, found)) return std::nullopt;
    return mixed_.next(enough, std::nullopt);
  }
  // Of plans those that cost least, at most so many.
  std::vector<Node> next_plans(std::size_t most) const {
    std::vector<Node> plans = alike_.next_plans(most);
    for (Node& plan : mixed_.next_plans(most - plans.size())) {
      plans.push_back(std::move(plan));
    }
    return plans;
  }
  // Whether a plan that was not expected to fit did.
  void note_unexpected(const Node& plan, bool fits) { of(plan).note_unexpected(fits); }
  // Whether a plan whose activations go to the host, and that was expected to fit, was the best so
  // far.
  void note_doubtful(const Node& plan, bool best) { of(plan).note_doubtful(best); }

 private:
  OpenSets& of(const Node& node) {
    const RecomputeChoice& recompute = node.choices.recompute;
    const bool mixes = recompute.kind == Recompute::Drop && recompute.layers > 0;
    return mixes || node.choices.offloaded_layers > 0 ? mixed_ : alike_;
  }
  OpenSets& with_least() {
    const Node *alike = alike_.least(), *mixed = mixed_.least();
    return mixed && (!alike || mixed->cost < alike->cost) ? mixed_ : alike_;
  }
  // Of plans that are not expected to fit few do. Until one does it goes on for longer.
  bool is_given_up(const OpenSets& sets, bool found) const {
    constexpr std::int64_t kLonger = 2;
    if (!found) return sets.plans() >= kLonger * most_;
    return sets.misfits() >= most_ / 4 || sets.plans() >= most_;
  }

  const std::int64_t most_;
  OpenSets alike_, mixed_;
};

}  // namespace meshwright
