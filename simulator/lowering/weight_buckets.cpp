#include "simulator/lowering/weight_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <set>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

class BucketBuilder {
 public:
  BucketBuilder(Program& program, const PlannedGraph& planned, const Plan& plan,
                const Placement& placement, const OpSharding& sharding)
      : program_(program),
        planned_(planned),
        plan_(plan),
        placement_(placement),
        sharding_(sharding),
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

  WeightBuckets build() {
    // The last op's gradients are complete first.
    for (auto chunk = plan_.chunks.rbegin(); chunk != plan_.chunks.rend(); ++chunk) {
      if (chunk->slot != placement_.slot()) continue;
      for (std::size_t op = chunk->end_op; op-- > chunk->first_op;) add_op(op);
      // An earlier chunk's gradients are complete much later, and whole ones are there only while
      // an entry, which is of one chunk, runs.
      finish_open();
    }
    for (const WeightId weight : tied_) add_bucket({weight}, true);
    return std::move(result_);
  }

 private:
  // Weights that are put together until a bucket is full.
  struct Open {
    std::vector<WeightId> weights;
    Bytes size;
  };

  // What dp shards here: nothing where there is one replica.
  int zero() const { return placement_.size("dp") > 1 ? plan_.zero : 0; }

  bool is_frozen(WeightId weight) const { return planned_.graph.weights[weight.index()].frozen; }

  bool is_partial(WeightId weight) const {
    return !is_frozen(weight) &&
           sharding_.gives_partial_gradient(uses_here_[weight.index()].front(), weight);
  }

  // Whether its gradients come from several places. Those of frozen weights come from nowhere.
  bool is_tied(WeightId weight) const {
    return !is_frozen(weight) &&
           (uses_here_[weight.index()].size() > 1 || slots_[weight.index()].size() > 1);
  }

  void add_op(std::size_t op) {
    const auto& weights = planned_.graph.ops[op].weights;
    // A kernel adds to all the gradients it writes or to none, so they are all whole or all cut.
    const bool tied = zero() > 1 && std::any_of(weights.begin(), weights.end(),
                                                [&](WeightId weight) { return is_tied(weight); });
    for (const WeightId weight : weights) {
      if (!seen_.insert(weight).second) continue;
      if (tied || is_tied(weight)) {
        tied_.push_back(weight);
        continue;
      }
      const Bytes size = bytes_per_element(BufferElement::Real, program_.precision) *
                         checked_product(sharding_.weight_sizes(op, weight));
      Open& open = open_[is_frozen(weight) ? 2 : is_partial(weight) ? 1 : 0];
      if (!open.weights.empty() && open.size + size > plan_.bucket) finish(open);
      open.size += size;
      open.weights.push_back(weight);
    }
  }

  void finish(Open& open) {
    if (!open.weights.empty()) add_bucket(open.weights, false);
    open = {};
  }

  void finish_open() {
    for (Open& open : open_) finish(open);
  }

  // Gains and biases do not decay.
  bool decays(WeightId weight) const {
    const GraphOp& op = planned_.graph.ops[uses_here_[weight.index()].front()];
    const bool matrix = op.kind == OpKind::Matmul || op.kind == OpKind::ExpertMatmul ||
                        op.kind == OpKind::Embedding;
    return matrix && op.weights.front() == weight;
  }

  void add_bucket(std::vector<WeightId> weights, bool tied) {
    std::stable_partition(weights.begin(), weights.end(), [&](WeightId w) { return decays(w); });
    Bucket bucket{.tied = tied};
    for (const WeightId weight : weights) {
      place_weight(bucket, weight);
      if (decays(weight)) bucket.decayed = bucket.count;
    }
    if (tied) {
      const auto& slots = slots_[weights.front().index()];
      bucket.slots.assign(slots.begin(), slots.end());
    }
    bucket.partial = is_partial(weights.front());
    bucket.shards_weights = zero() > 2;
    bucket.shards_gradients = zero() > 1 && !tied;
    bucket.filled = bucket.count;
    const std::int64_t dp = zero() > 0 ? placement_.size("dp") : 1;
    bucket.count = (bucket.count + dp - 1) / dp * dp;
    bucket.own_count = bucket.count / dp;
    bucket.own_first = dp > 1 ? placement_.coordinate("dp") * bucket.own_count : 0;
    add_buffers(bucket, is_frozen(weights.front()));
    result_.buckets.push_back(std::move(bucket));
  }

  void place_weight(Bucket& bucket, WeightId weight) {
    const auto& uses = uses_here_[weight.index()];
    const auto sizes = sharding_.weight_sizes(uses.front(), weight);
    WeightShard shard{.name = planned_.graph.weights[weight.index()].name,
                      .place = sharding_.weight_place(uses.front(), weight),
                      .sizes = sizes,
                      .offset = bucket.count};
    shard.counted = is_counted(weight, uses.front());
    const std::size_t index = program_.weights.size();
    for (std::size_t u = 0; u < uses.size(); ++u) {
      WeightUsed use{
          .op = uses[u], .weight = weight, .shard = index, .bucket = result_.buckets.size()};
      if (u > 0 && !is_frozen(weight)) {
        use.own_gradient =
            add_buffer(fmt::format("gradient {} of {}", u, shard.name), checked_product(sizes),
                       Component::Gradients, gradient_element(plan_));
      }
      result_.uses.push_back(use);
    }
    bucket.count = checked_add(bucket.count, checked_product(sizes));
    bucket.shards.push_back(index);
    program_.weights.push_back(std::move(shard));
  }

  // Of devices that hold the same numbers one counts them: the first slot's, and where tensor
  // parallelism repeats a weight the first along that axis.
  bool is_counted(WeightId weight, std::size_t op) const {
    if (*slots_[weight.index()].begin() != placement_.slot()) return false;
    for (const DimId dim : planned_.graph.weights[weight.index()].dims) {
      if (sharding_.is_split(op, dim)) return true;
    }
    return placement_.coordinate("tp") == 0;
  }

  void add_buffers(Bucket& bucket, bool frozen) {
    const std::size_t number = result_.buckets.size();
    const auto add = [&](const char* name, bool shards, Component component,
                         BufferElement element = BufferElement::Real) {
      return add_buffer(fmt::format("{} {}", name, number),
                        shards ? bucket.own_count : bucket.count, component, element);
    };
    bucket.weights = add("weights", bucket.shards_weights, Component::Weights);
    if (!frozen) {
      const BufferElement state = state_element(plan_);
      bucket.gradients =
          add("gradients", bucket.shards_gradients, Component::Gradients, gradient_element(plan_));
      const auto add_state = [&](const char* name) {
        const BufferId id = add(name, true, Component::Optimizer, state);
        if (plan_.offload_optimizer) program_.buffers[id.index()].space = Space::Host;
        return id;
      };
      bucket.first_moment = add_state("moments");
      bucket.second_moment = add_state("squares");
      if (is_mixed(plan_.precision)) bucket.master = add_state("master weights");
    }
    for (const std::size_t shard : bucket.shards) {
      program_.weights[shard].weight = bucket.weights;
      program_.weights[shard].gradient = bucket.gradients;
      program_.weights[shard].weight_first = bucket.weights_first();
      program_.weights[shard].gradient_first = bucket.gradients_first();
      set_owned(bucket, program_.weights[shard]);
    }
  }

  // The part of the shard whose final gradient this device holds.
  static void set_owned(const Bucket& bucket, WeightShard& shard) {
    const std::int64_t count = checked_product(shard.sizes);
    const std::int64_t first = std::clamp(bucket.own_first - shard.offset, std::int64_t{0}, count);
    const std::int64_t end =
        std::clamp(bucket.own_first + bucket.own_count - shard.offset, std::int64_t{0}, count);
    shard.owned_first = first;
    shard.owned_count = end - first;
  }

  BufferId add_buffer(std::string name, std::int64_t count, Component component,
                      BufferElement element) {
    program_.buffers.push_back({.name = std::move(name),
                                .count = count,
                                .element = element,
                                .component = component,
                                .persistent = true});
    return BufferId(program_.buffers.size() - 1);
  }

  Program& program_;
  const PlannedGraph& planned_;
  const Plan& plan_;
  const Placement& placement_;
  const OpSharding& sharding_;
  std::vector<std::set<std::size_t>> slots_;         // of each weight
  std::vector<std::vector<std::size_t>> uses_here_;  // of each weight: ops of this slot
  std::set<WeightId> seen_;
  std::vector<WeightId> tied_;
  std::array<Open, 3> open_;  // trained, trained with partial gradients, frozen
  WeightBuckets result_;
};

}  // namespace

const WeightUsed& WeightBuckets::use(std::size_t op, WeightId weight) const {
  const auto found = std::find_if(uses.begin(), uses.end(), [&](const WeightUsed& entry) {
    return entry.op == op && entry.weight == weight;
  });
  assert(found != uses.end());
  return *found;
}

WeightBuckets add_weights(Program& program, const PlannedGraph& planned, const Plan& plan,
                          const Placement& placement, const OpSharding& sharding) {
  return BucketBuilder(program, planned, plan, placement, sharding).build();
}

}  // namespace meshwright
