#pragma once

#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {

// How far choices have come; each step decides more.
enum class Depth { Mesh, Kernels, Microbatch, Division, Schedule, Offload, Recompute, Zero, Plan };

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

// Sets of plans that are not decided yet, and plans that are not simulated. Those whose activations
// go to the host take turns with the others, plan by plan: whether they fit and hide their copies
// only a simulation tells, so many of them may be looked at in vain.
class OpenSets {
 public:
  void push(Node node) {
    Heap& heap = node.choices.offload_activations ? doubtful_ : sure_;
    heap.push(std::move(node));
  }
  bool empty() const { return sure_.empty() && doubtful_.empty(); }
  // That costs least.
  const Node& top() const { return least_heap()->top(); }
  Node pop_least() { return pop(least_heap() == &sure_ ? sure_ : doubtful_); }
  // The next to look at of those that cost less than `enough`.
  std::optional<Node> next(double enough) {
    const bool doubtful_first = plans_of_doubtful_ < plans_of_sure_;
    for (const bool doubtful : {doubtful_first, !doubtful_first}) {
      Heap& heap = doubtful ? doubtful_ : sure_;
      if (heap.empty() || heap.top().cost >= enough) continue;
      Node node = pop(heap);
      if (node.depth == Depth::Plan) ++(doubtful ? plans_of_doubtful_ : plans_of_sure_);
      return node;
    }
    return std::nullopt;
  }

 private:
  using Heap = std::priority_queue<Node, std::vector<Node>, IsWorse>;
  const Heap* least_heap() const {
    if (sure_.empty()) return &doubtful_;
    if (doubtful_.empty()) return &sure_;
    return sure_.top().cost <= doubtful_.top().cost ? &sure_ : &doubtful_;
  }
  static Node pop(Heap& heap) {
    Node node = heap.top();
    heap.pop();
    return node;
  }

  Heap sure_, doubtful_;
  std::int64_t plans_of_sure_ = 0, plans_of_doubtful_ = 0;  // that were looked at
};

}  // namespace meshwright
