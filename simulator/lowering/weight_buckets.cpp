#include "simulator/lowering/weight_buckets.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

bool has_axis(const std::vector<AxisId>& axes, AxisId axis) {
  return std::ranges::count(axes, axis) > 0;
}

class BucketCutter {
 public:
  BucketCutter(const PlannedGraph& planned, const Plan& plan, const Placement& placement)
      : planned_(planned),
        plan_(plan),
        placement_(placement),
        shards_(planned, plan, placement),
        slots_(planned.graph.weights.size()),
        uses_here_(planned.graph.weights.size()) {
    for (const Chunk& chunk : plan.chunks) {
      for (std::size_t op = chunk.first_op; op < chunk.end_op; ++op) {
        for (const WeightId weight : planned.graph.ops[op].weights) {
          slots_[weight.index()].insert(chunk.slot);
          if (chunk.slot == placement.slot()) uses_here_[weight.index()].push_back(op);
        }
      }
    }
  }

  WeightBuckets run() {
    // The last op's gradients are complete first.
    for (auto chunk = plan_.chunks.rbegin(); chunk != plan_.chunks.rend(); ++chunk) {
      if (chunk->slot != placement_.slot()) continue;
      for (std::size_t op = chunk->end_op; op-- > chunk->first_op;) add_op(op);
      // An earlier chunk's gradients are complete much later, and whole ones are there only while
      // an entry, which is of one chunk, runs.
      finish_open();
    }
    for (const WeightId weight : tied_) add_bucket({weight}, true);
    std::ranges::sort(result_.uses, {}, [](const auto& entry) { return entry.first; });
    return std::move(result_);
  }

 private:
  // Weights that are put together until a bucket is full. Those of a bucket are shared out and
  // summed alike.
  struct Open {
    std::vector<WeightId> weights;
    Bytes size;
  };
  struct Likeness {
    bool frozen = false;
    std::vector<AxisId> gradient_axes, state_axes;
    friend auto operator<=>(const Likeness&, const Likeness&) = default;
  };

  bool is_frozen(WeightId weight) const { return planned_.graph.weights[weight.index()].frozen; }

  // The first op of the slot that uses the weight, and which of its weights it is.
  std::pair<std::size_t, std::size_t> first_use(WeightId weight) const {
    const std::size_t op = uses_here_[weight.index()].front();
    const auto& weights = planned_.graph.ops[op].weights;
    return {op, static_cast<std::size_t>(std::ranges::find(weights, weight) - weights.begin())};
  }

  const Layout& layout_of(WeightId weight) const {
    const auto [op, position] = first_use(weight);
    return planned_.op(op).weights[position];
  }

  std::vector<AxisId> gradient_axes(WeightId weight) const {
    if (is_frozen(weight)) return {};
    const auto [op, position] = first_use(weight);
    return planned_.gradient_axes(op, position);
  }

  // The axes that share out a weight's state: of the plan's those whose devices have the same
  // weights, and add to the same gradients.
  std::vector<AxisId> state_axes(WeightId weight) const {
    const std::vector<AxisId> summed = gradient_axes(weight), cut = axes_of(layout_of(weight));
    std::vector<AxisId> axes;
    for (const AxisId axis : plan_.state.optimizer) {
      const bool shares = is_frozen(weight) ? !has_axis(cut, axis) : has_axis(summed, axis);
      if (shares && placement_.mesh().size(axis) > 1) axes.push_back(axis);
    }
    return axes;
  }

  // What gradients are summed over decides how the state of trained weights is shared out.
  Likeness likeness(WeightId weight) const {
    return {is_frozen(weight), gradient_axes(weight),
            is_frozen(weight) ? state_axes(weight) : std::vector<AxisId>()};
  }

  // Whether its gradients come from several places. Those of frozen weights come from nowhere.
  bool is_tied(WeightId weight) const {
    return !is_frozen(weight) &&
           (uses_here_[weight.index()].size() > 1 || slots_[weight.index()].size() > 1);
  }

  bool shares_gradients(WeightId weight) const {
    return !plan_.state.gradients.empty() && !state_axes(weight).empty();
  }

  void add_op(std::size_t op) {
    const auto& weights = planned_.graph.ops[op].weights;
    // A kernel adds to all the gradients it writes or to none, so they are all whole or all cut.
    const bool tied = std::ranges::any_of(
        weights, [&](WeightId weight) { return is_tied(weight) && shares_gradients(weight); });
    for (const WeightId weight : weights) {
      if (!seen_.insert(weight).second) continue;
      if (tied || is_tied(weight)) {
        tied_.push_back(weight);
        continue;
      }
      const Bytes size = bytes_per_element(BufferElement::Real, plan_.precision) *
                         checked_product(shards_.sizes(layout_of(weight)));
      Open& open = open_[likeness(weight)];
      if (!open.weights.empty() && overfills(open.size, size, plan_.bucket)) finish(open);
      open.size += size;
      open.weights.push_back(weight);
    }
  }

  void finish(Open& open) {
    if (!open.weights.empty()) add_bucket(open.weights, false);
    open = {};
  }

  void finish_open() {
    for (auto& [likeness, open] : open_) finish(open);
  }

  // Gains and biases do not decay.
  bool decays(WeightId weight) const {
    const GraphOp& op = planned_.graph.ops[uses_here_[weight.index()].front()];
    const bool matrix = op.kind == OpKind::Matmul || op.kind == OpKind::ExpertMatmul ||
                        op.kind == OpKind::Embedding;
    return matrix && op.weights.front() == weight;
  }

  // Of a router's bias, which is moved to even loads out.
  std::optional<double> sign_rate(WeightId weight) const {
    const GraphOp& op = planned_.graph.ops[uses_here_[weight.index()].front()];
    if (op.kind != OpKind::Router) return std::nullopt;
    return std::get<RouterAttributes>(op.attributes).bias_rate;
  }

  void add_bucket(std::vector<WeightId> weights, bool tied) {
    std::ranges::stable_sort(weights, {}, [&](WeightId w) {
      return decays(w) ? 0 : sign_rate(w) ? 2 : 1;
    });
    Bucket bucket{.frozen = is_frozen(weights.front()), .tied = tied};
    for (const WeightId weight : weights) {
      place_weight(bucket, weight);
      if (decays(weight)) bucket.decayed = bucket.count;
      if (!sign_rate(weight)) bucket.moved = bucket.count;
    }
    if (tied) {
      const auto& slots = slots_[weights.front().index()];
      bucket.slots.assign(slots.begin(), slots.end());
    }
    for (const AxisId axis : gradient_axes(weights.front())) {
      const bool samples =
          has_axis(planned_.replica_axes, axis) || shares_experts(planned_, plan_, axis);
      (samples ? bucket.replica_axes : bucket.late_axes).push_back(axis);
    }
    bucket.state_axes = state_axes(weights.front());
    bucket.shards_weights = !plan_.state.weights.empty() && !bucket.state_axes.empty();
    bucket.shards_gradients = shares_gradients(weights.front()) && !tied && !bucket.frozen;
    share_out(bucket);
    result_.buckets.push_back(std::move(bucket));
  }

  void share_out(Bucket& bucket) const {
    const std::int64_t owners = placement_.mesh().size(bucket.state_axes);
    bucket.count = padded(bucket.count, owners);
    bucket.own_count = bucket.count / owners;
    bucket.own_first = placement_.index_along(bucket.state_axes) * bucket.own_count;
  }

  void place_weight(Bucket& bucket, WeightId weight) {
    const auto& uses = uses_here_[weight.index()];
    const Layout& layout = layout_of(weight);
    for (std::size_t u = 0; u < uses.size(); ++u) {
      result_.uses.push_back(
          {{uses[u], weight}, {result_.buckets.size(), bucket.weights.size(), u}});
    }
    bucket.weights.push_back({.weight = weight,
                              .uses = uses,
                              .place = shards_.extents(layout),
                              .sizes = shards_.sizes(layout),
                              .offset = bucket.count,
                              .counted = is_counted(weight),
                              .sign_rate = sign_rate(weight)});
    bucket.count = checked_add(bucket.count, checked_product(bucket.weights.back().sizes));
  }

  // Of devices that hold the same numbers one counts them: the first slot's, and along axes that do
  // not repeat the whole model with other samples the first of those that have the same of it.
  bool is_counted(WeightId weight) const {
    if (*slots_[weight.index()].begin() != placement_.slot()) return false;
    const std::vector<AxisId> cut = axes_of(layout_of(weight)), owners = state_axes(weight);
    for (std::size_t a = 0; a < placement_.mesh().axes().size(); ++a) {
      const AxisId axis(a);
      if (has_axis(planned_.replica_axes, axis) || has_axis(cut, axis)) continue;
      if (has_axis(owners, axis)) continue;
      if (placement_.coordinates()[a] != 0) return false;
    }
    return true;
  }

  const PlannedGraph& planned_;
  const Plan& plan_;
  const Placement& placement_;
  const Shards shards_;
  std::vector<std::set<std::size_t>> slots_;         // of each weight
  std::vector<std::vector<std::size_t>> uses_here_;  // of each weight: ops of this slot
  std::set<WeightId> seen_;
  std::vector<WeightId> tied_;
  std::map<Likeness, Open> open_;
  WeightBuckets result_;
};

}  // namespace

const WeightUsed& WeightBuckets::use(std::size_t op, WeightId weight) const {
  const auto found = std::ranges::lower_bound(uses, std::pair(op, weight), {},
                                              [](const auto& entry) { return entry.first; });
  assert(found != uses.end() && found->first == std::pair(op, weight));
  return found->second;
}

bool shares_experts(const PlannedGraph& planned, const Plan& plan, AxisId axis) {
  const bool repeats =
      has_axis(plan.batch_axes, axis) || has_axis(planned.replica_axes_beside_experts, axis);
  if (!repeats) return false;
  for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
    if (planned.graph.ops[op].kind != OpKind::ExpertMatmul) continue;
    if (has_axis(planned.op(op).layouts.weights[0].dims[0].sharding.axes, axis)) return true;
  }
  return false;
}

bool overfills(Bytes filled, Bytes size, Bytes bucket) { return filled + size > bucket; }

std::int64_t padded(std::int64_t elements, std::int64_t owners) {
  return (elements + owners - 1) / owners * owners;
}

WeightBuckets cut_buckets(const PlannedGraph& planned, const Plan& plan,
                          const Placement& placement) {
  return BucketCutter(planned, plan, placement).run();
}

}  // namespace meshwright
