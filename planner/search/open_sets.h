#pragma once

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {

// How far choices have come; each step decides more.
enum class Depth {
  Mesh,
  Kernels,
  Microbatch,
  Division,
  Schedule,
  Offload,
  Zero,
  State,  // the same, with what the state costs
  Recompute,
  Plan
};

struct Node {
  Depth depth = Depth::Mesh;
  PlanChoices choices;
  PlanBound bound;
  double cost = 0;  // least, by the objective
};

// The most promising first; of equals the one that is further decided, then fewer devices, then by
// the text, so that nothing depends on the order in which nodes were made.
struct IsWorse {
  bool operator()(const Node& a, const Node& b) const {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.depth != b.depth) return a.depth < b.depth;
    const std::int64_t devices_a = device_count(a.choices), devices_b = device_count(b.choices);
    if (devices_a != devices_b) return devices_a > devices_b;
    // Numbers first: texts take long to write.
    const auto numbers = [](const PlanChoices& c) {
      return std::tuple(c.dp, c.tp, c.pp, c.cp, c.microbatch, c.virtual_stages, c.zero,
                        c.bucket.value());
    };
    if (numbers(a.choices) != numbers(b.choices)) return numbers(a.choices) > numbers(b.choices);
    return to_text(a.choices) > to_text(b.choices);
  }
};

// A queue whose first can be taken out without a copy.
class OpenGroup {
 public:
  bool empty() const { return heap_.empty(); }
  const Node& top() const { return heap_.front(); }
  void push(Node node) {
    heap_.push_back(std::move(node));
    std::ranges::push_heap(heap_, IsWorse());
  }
  Node pop() {
    std::ranges::pop_heap(heap_, IsWorse());
    Node node = std::move(heap_.back());
    heap_.pop_back();
    return node;
  }

 private:
  std::vector<Node> heap_;
};

// Sets of plans that are not decided yet, and plans that are not simulated. Those whose activations
// go to the host take turns with the others, plan by plan: whether they fit and hide their copies
// only a simulation tells, so many of them may be looked at in vain.
class OpenSets {
 public:
  void push(Node node) {
    OpenGroup& group = node.choices.offload_activations ? doubtful_ : sure_;
    group.push(std::move(node));
  }
  bool empty() const { return sure_.empty() && doubtful_.empty(); }
  // That costs least.
  const Node& top() const { return has_least(sure_, doubtful_) ? sure_.top() : doubtful_.top(); }
  Node pop_least() { return has_least(sure_, doubtful_) ? sure_.pop() : doubtful_.pop(); }
  // The next to look at of those that cost less than `enough`.
  std::optional<Node> next(double enough) {
    const bool doubtful_first = plans_of_doubtful_ < plans_of_sure_;
    for (const bool doubtful : {doubtful_first, !doubtful_first}) {
      OpenGroup& group = doubtful ? doubtful_ : sure_;
      if (group.empty() || group.top().cost >= enough) continue;
      Node node = group.pop();
      if (node.depth == Depth::Plan) ++(doubtful ? plans_of_doubtful_ : plans_of_sure_);
      return node;
    }
    return std::nullopt;
  }

 private:
  static bool has_least(const OpenGroup& one, const OpenGroup& other) {
    return other.empty() || (!one.empty() && one.top().cost <= other.top().cost);
  }

  OpenGroup sure_, doubtful_;
  std::int64_t plans_of_sure_ = 0, plans_of_doubtful_ = 0;  // that were looked at
};

}  // namespace meshwright
