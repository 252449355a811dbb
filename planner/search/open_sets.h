#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/expectation.h"
#include "planner/search/node.h"

namespace meshwright {

// Whether one comes before another with the same number: the one that is further decided, then
// fewer devices, then by the text, so that nothing depends on the order in which nodes were made.
inline bool is_before(const Node& a, const Node& b) {
  if (a.depth != b.depth) return a.depth > b.depth;
  const std::int64_t devices_a = device_count(a.choices), devices_b = device_count(b.choices);
  if (devices_a != devices_b) return devices_a < devices_b;
  // Numbers first: texts take long to write.
  const auto numbers = [](const PlanChoices& c) {
    return std::tuple(c.dp, c.tp, c.pp, c.cp, c.ep, c.microbatch, c.sequence_parallel, c.schedule,
                      c.virtual_stages, c.context, c.ulysses.value_or(0), c.place.size(), c.zero,
                      c.recompute.kind, c.recompute.dropped.size(), c.recompute.layers,
                      c.offload_activations, c.offload_optimizer, c.bucket.value(),
                      c.shard.value_or(0), c.tensor, c.inner_ring.value_or(0), c.etp.value_or(0),
                      c.offloaded_layers, c.layers.size());
  };
  if (const auto order = numbers(a.choices) <=> numbers(b.choices); order != 0) return order < 0;
  const auto counts = [](const PlanChoices& c) {
    return c.place | std::views::transform(&NodeShare::count);
  };
  const auto places = [&](const PlanChoices& c, const PlanChoices& d) {
    return std::ranges::lexicographical_compare(counts(c), counts(d));
  };
  if (places(a.choices, b.choices)) return true;
  if (places(b.choices, a.choices)) return false;
  if (a.choices == b.choices) return false;
  return to_text(a.choices) < to_text(b.choices);
}

// A node stands in several queues: taken out of one, it is left in the others for a while.
struct OpenNode {
  Node node;
  bool taken = false;
};

// By a number, the least first.
class NodeQueue {
 public:
  struct Entry {
    double number = 0;
    std::shared_ptr<OpenNode> open;
  };
  void push(Entry entry) {
    heap_.push_back(std::move(entry));
    std::ranges::push_heap(heap_, is_later);
  }
  // Null: all were taken.
  const Entry* top() {
    while (!heap_.empty() && heap_.front().open->taken) pop();
    return heap_.empty() ? nullptr : &heap_.front();
  }
  Entry pop() {
    std::ranges::pop_heap(heap_, is_later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    return entry;
  }
  std::size_t size() const { return heap_.size(); }
  // Lets go of those that were taken.
  void clean() {
    std::erase_if(heap_, [](const Entry& entry) { return entry.open->taken; });
    std::ranges::make_heap(heap_, is_later);
  }
  // That were not taken, in any order.
  std::vector<Entry> plans() const {
    std::vector<Entry> found;
    std::ranges::copy_if(heap_, std::back_inserter(found), [](const Entry& entry) {
      return !entry.open->taken && entry.open->node.depth == Depth::Plan;
    });
    return found;
  }
  static bool is_later(const Entry& a, const Entry& b) {
    return a.number != b.number ? a.number > b.number : is_before(b.open->node, a.open->node);
  }

 private:
  std::vector<Entry> heap_;
};

// Sets of plans that are not decided yet, and plans that are not simulated. The least bound is
// next: what costs less than the best plan must be looked at in any case. Where plans are asked for
// early, it is what a plan is expected of that would be much better than the best so far and takes
// not long to simulate, since the least bounds stand where little is decided. Those whose
// activations go to the host take turns with the others, plan by plan, where their bounds are less,
// the fewer the more were looked at in vain: whether they fit and hide their copies only a
// simulation tells. Plans that are not expected to fit wait for others that cost little more, the
// longer the more of them did not: these may be good enough. Where many did not, those that need
// least come in turn. Plans that are hardly another than one that was looked at, and so not
// expected to be good enough, come last.
class OpenSets {
 public:
  // It must outlive this, and may learn.
  explicit OpenSets(const Expectation& expectation) : expectation_(expectation) {}

  void push(Node node) {
    Group& group = node.choices.offload_activations ? doubtful_ : sure_;
    const auto open = std::make_shared<OpenNode>(std::move(node));
    group.by_cost.push({open->node.cost, open});
    if (&group == &sure_ && !expectation_.plays_long(open->node)) {
      by_expected_.push({expectation_.of(open->node), open});
    }
  }
  // That costs least; null: there are none.
  const Node* least() {
    const NodeQueue::Entry* entry = queue_with_least().top();
    return entry ? &entry->open->node : nullptr;
  }
  // There must be one.
  Node pop_least() {
    NodeQueue& queue = queue_with_least();
    queue.top();
    return take(queue.pop().open);
  }
  // The next to look at of those that cost less than `enough`, which never grows. Those of which
  // less than `promising` is expected go before; none: nothing does.
  std::optional<Node> next(double enough, std::optional<double> promising) {
    let_wait(sure_.by_cost, enough);
    let_wait(doubtful_.by_cost, enough);
    const auto *sure = below(sure_.by_cost, enough), *doubtful = below(doubtful_.by_cost, enough);
    if (in_vain_ == kMostInVain) doubtful = nullptr;
    if (have_waited(enough, is_less(doubtful, sure) ? doubtful : sure)) {
      return look_at(next_waiting(enough), sure_);
    }
    if (!sure && !doubtful && below(alike_, enough)) return look_at(alike_.pop().open, sure_);
    const bool turn = doubtful_.plans * (1 + in_vain_ / kFewInVain) <= sure_.plans;
    if (doubtful && (!sure || (turn && !promising && is_less(doubtful, sure)))) {
      return look_at(doubtful_.by_cost.pop().open, doubtful_);
    }
    if (!sure) return std::nullopt;
    const auto open = promising ? promising_of(*promising) : nullptr;
    return look_at(open ? open : sure_.by_cost.pop().open, sure_);
  }
  // Of plans those that cost least, at most so many.
  std::vector<Node> next_plans(std::size_t most) const {
    std::vector<NodeQueue::Entry> plans = sure_.by_cost.plans();
    std::ranges::move(doubtful_.by_cost.plans(), std::back_inserter(plans));
    std::ranges::move(waiting_.plans(), std::back_inserter(plans));
    std::ranges::move(alike_.plans(), std::back_inserter(plans));
    std::ranges::sort(plans, [](const NodeQueue::Entry& a, const NodeQueue::Entry& b) {
      return NodeQueue::is_later(b, a);
    });
    std::vector<Node> next;
    for (std::size_t i = 0; i < std::min(most, plans.size()); ++i) {
      next.push_back(plans[i].open->node);
    }
    return next;
  }
  // Whether a plan that was not expected to fit did.
  void note_unexpected(bool fits) { misfits_ = fits ? 0 : misfits_ + 1; }
  // Of those that did not, since one did.
  std::int64_t misfits() const { return misfits_; }
  // Plans that were looked at.
  std::int64_t plans() const { return sure_.plans + doubtful_.plans; }
  // Whether a plan whose activations go to the host, and that was expected to fit, was the best so
  // far.
  void note_doubtful(bool best) { in_vain_ = best ? 0 : in_vain_ + 1; }

 private:
  static constexpr std::int64_t kFewInVain = 32, kMostInVain = 100, kManyMisfits = 8;
  struct Group {
    NodeQueue by_cost;
    std::int64_t plans = 0;  // that were looked at
  };

  static bool is_less(const NodeQueue::Entry* a, const NodeQueue::Entry* b) {
    return a && (!b || a->number < b->number);
  }
  NodeQueue& queue_with_least() {
    NodeQueue* least = &sure_.by_cost;
    for (NodeQueue* queue : {&waiting_, &alike_, &doubtful_.by_cost}) {
      if (is_less(queue->top(), least->top())) least = queue;
    }
    return *least;
  }
  // Sets those plans aside that would be next and of which nothing is expected.
  void let_wait(NodeQueue& queue, double enough) {
    for (const auto* top = queue.top(); top && top->number < enough; top = queue.top()) {
      const Node& node = top->open->node;
      if (node.depth != Depth::Plan) return;
      const bool fits = expectation_.fits(node);
      if (fits && expectation_.may_cost_less(node, enough)) return;
      const auto open = queue.pop().open;
      if (fits) {
        alike_.push({open->node.cost, open});
        continue;
      }
      waiting_.push({open->node.cost, open});
      waiting_by_bytes_.push({expectation_.bytes_of(open->node), open});
    }
  }
  // The least; null: none costs less.
  static const NodeQueue::Entry* below(NodeQueue& queue, double enough) {
    const NodeQueue::Entry* top = queue.top();
    return top && top->number < enough ? top : nullptr;
  }
  // Whether a plan that waits is next, where the least of the others is this.
  bool have_waited(double enough, const NodeQueue::Entry* other) {
    constexpr double kLittle = 0.005;
    constexpr std::int64_t kMostDoublings = 8;
    const NodeQueue::Entry* waits = below(waiting_, enough);
    const std::int64_t doublings = std::min(misfits_ / kManyMisfits, kMostDoublings);
    const double more = 1 + kLittle * static_cast<double>(1 << doublings);
    return waits && (!other || waits->number * more < other->number);
  }
  // The least, or every second time, where many did not fit, the one that is expected to need
  // least.
  std::shared_ptr<OpenNode> next_waiting(double enough) {
    while (misfits_ >= kManyMisfits && misfits_ % 2 == 0 && waiting_by_bytes_.top()) {
      const auto open = waiting_by_bytes_.pop().open;
      if (open->node.cost < enough) return open;
    }
    return waiting_.pop().open;
  }
  Node look_at(const std::shared_ptr<OpenNode>& open, Group& group) {
    if (open->node.depth == Depth::Plan) ++group.plans;
    return take(open);
  }
  Node take(const std::shared_ptr<OpenNode>& open) {
    open->taken = true;
    Node node = open->node;  // others in the queues are still compared with it
    if (2 * ++taken_ > by_expected_.size()) {
      taken_ = 0;
      by_expected_.clean();
    }
    return node;
  }
  // Of which less is expected; what is may have changed since. Null: there is none.
  std::shared_ptr<OpenNode> promising_of(double promising) {
    constexpr double kMuch = 1.02;
    const auto* top = by_expected_.top();
    for (; top && top->number < promising; top = by_expected_.top()) {
      NodeQueue::Entry entry = by_expected_.pop();
      const double now = expectation_.of(entry.open->node);
      if (now <= kMuch * entry.number) return entry.open;
      by_expected_.push({now, std::move(entry.open)});
    }
    return nullptr;
  }

  const Expectation& expectation_;
  Group sure_, doubtful_;
  NodeQueue waiting_, waiting_by_bytes_;  // plans that are not expected to fit
  NodeQueue alike_;                       // that are, and to cost as much as those like them
  std::int64_t misfits_ = 0;              // of those that were not expected to fit, since one did
  NodeQueue by_expected_;                 // sure ones
  std::size_t taken_ = 0;                 // since that one was cleaned
  std::int64_t in_vain_ = 0;              // doubtful plans, since one was the best
};

}  // namespace meshwright
