#include "simulator/lowering/step_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "costmodel/base/checked.h"
#include "simulator/lowering/view.h"

namespace meshwright {
namespace {

Operand doubles(std::int64_t count, bool written = false) {
  Operand operand = dense_operand({count}, BufferElement::Double);
  operand.written = written;
  return operand;
}

std::vector<AxisId> without(const std::vector<AxisId>& axes, const std::vector<AxisId>& others) {
  std::vector<AxisId> rest;
  std::ranges::copy_if(axes, std::back_inserter(rest),
                       [&](AxisId axis) { return std::ranges::count(others, axis) == 0; });
  return rest;
}

std::int64_t own_start(const Bucket& bucket) { return bucket.own_first - bucket.gradients_first(); }

class StepEndWriter {
 public:
  StepEndWriter(const PlannedGraph& planned, const WeightBuckets& weights, const Plan& plan,
                const Placement& placement)
      : planned_(planned),
        weights_(weights),
        plan_(plan),
        placement_(placement),
        gradients_(gradient_element(plan)) {}

  StepEnd write(const std::vector<bool>& synced) {
    add_tied();
    ++round_;
    add_sums(synced);
    ++round_;
    add_loss();
    ++round_;
    add_norm();
    ++round_;
    add_updates();
    return std::move(result_);
  }

  void sync(std::size_t number) {
    const Bucket& bucket = weights_.buckets[number];
    const bool shared = !bucket.state_axes.empty();
    const Operand whole = range(0, bucket.count, gradients_);
    const Operand own = range(bucket.own_first, bucket.own_count, gradients_);
    transfer({.kind = shared ? TransferKind::ReduceScatter : TransferKind::AllReduce,
              .purpose = Purpose::Gradients,
              .group = placement_.group(shared ? bucket.state_axes : bucket.replica_axes),
              .source = whole,
              .target = shared ? own : whole},
             BucketState{number, StateKind::Gradients});
    // Replicas of the owners have the sum of others.
    if (shared) sum_part(number, bucket.own_first, without(bucket.replica_axes, bucket.state_axes));
  }

  std::vector<StateTask> tasks() { return std::move(result_.tasks); }

 private:
  void add(std::variant<Kernel, Transfer, HostCopy> work, std::vector<StateOperand> operands) {
    const auto* copy = std::get_if<HostCopy>(&work);
    const bool waits = copy && copy->direction == CopyDirection::FromHost;
    result_.tasks.push_back({std::move(work), std::move(operands), round_, waits});
  }

  // Inside one buffer. Nothing for a group of one.
  void transfer(Transfer transfer, StateOperand operand) {
    if (transfer.group.size() > 1) add(std::move(transfer), {operand, operand});
  }

  // In place.
  void all_reduce(Purpose purpose, std::vector<DeviceId> group, const Operand& operand,
                  StateOperand buffer, Reduction reduction = Reduction::Sum) {
    transfer({.kind = TransferKind::AllReduce,
              .reduction = reduction,
              .purpose = purpose,
              .group = std::move(group),
              .source = operand,
              .target = operand},
             buffer);
  }

  // Of the own part, which starts at element `first` of the gradients' buffer.
  void sum_part(std::size_t number, std::int64_t first, const std::vector<AxisId>& axes) {
    all_reduce(Purpose::Gradients, placement_.group(axes),
               range(first, weights_.buckets[number].own_count, gradients_),
               BucketState{number, StateKind::Gradients});
  }

  void add_sums(const std::vector<bool>& synced) {
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      const Bucket& bucket = weights_.buckets[b];
      if (!synced[b] && !bucket.frozen && !bucket.shards_gradients) sync(b);
    }
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      const Bucket& bucket = weights_.buckets[b];
      if (!bucket.frozen) sum_part(b, own_start(bucket), bucket.late_axes);
    }
  }

  // Gradients of one weight from several ops of this device, then from several slots.
  void add_tied() {
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      const Bucket& bucket = weights_.buckets[b];
      if (!bucket.tied) continue;
      const BucketWeight& weight = bucket.weights.front();
      const std::int64_t count = checked_product(weight.sizes);
      for (std::size_t use = 1; use < weight.uses.size(); ++use) add_use(b, use, count);
      std::vector<DeviceId> group;
      for (const std::size_t slot : bucket.slots) group.push_back(placement_.peer(slot));
      all_reduce(Purpose::Tied, std::move(group), range(0, count, gradients_),
                 BucketState{b, StateKind::Gradients});
    }
  }

  void add_use(std::size_t number, std::size_t use, std::int64_t count) {
    Kernel kernel{.kind = KernelKind::Sum, .phase = Phase::InputGradient};
    kernel.operands = {range(0, count, gradients_), range(0, count, gradients_),
                       range(0, count, gradients_, true)};
    kernel.has_addend = true;
    const WeightId weight = weights_.buckets[number].weights.front().weight;
    kernel.name = planned_.graph.weights[weight.index()].name;
    const BucketState sum{number, StateKind::Gradients};
    add(std::move(kernel), {UseGradient{number, 0, use}, sum, sum});
  }

  // Over samples and tokens, then over slots: each has the losses of its own ops.
  void add_loss() {
    const std::vector<std::size_t> slots = loss_slots(planned_, plan_);
    if (std::ranges::count(slots, placement_.slot()) == 0) return;
    all_reduce(Purpose::Loss, placement_.group(planned_.loss_axes()), doubles(1), StepOutput::Loss);
    std::vector<DeviceId> group;
    for (const std::size_t slot : slots) group.push_back(placement_.peer(slot));
    all_reduce(Purpose::Loss, std::move(group), doubles(1), StepOutput::Loss);
  }

  // Devices whose gradients together are all gradients, each counted once: those at the same
  // coordinates along axes that repeat all of them.
  std::vector<DeviceId> norm_group() const {
    const std::vector<AxisId> repeated = without(planned_.replica_axes, plan_.state.optimizer);
    std::vector<DeviceId> group;
    for (const Slot& slot : plan_.slots) {
      for (std::size_t i = 0; i < slot.mesh.devices().size(); ++i) {
        const auto coordinates = slot.mesh.coordinates_at(i);
        const bool same = std::ranges::all_of(repeated, [&](AxisId axis) {
          return coordinates[axis.index()] == placement_.coordinates()[axis.index()];
        });
        if (same) group.push_back(slot.mesh.devices()[i]);
      }
    }
    std::ranges::sort(group);
    return group;
  }

  // What this device updates of each bucket, and the ranges of it that it counts: neighbours are
  // joined.
  void add_counted(Kernel& kernel, std::vector<StateOperand>& operands) const {
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      const Bucket& bucket = weights_.buckets[b];
      if (bucket.frozen) continue;
      std::optional<std::int64_t> end;  // of the range before
      for (const BucketWeight& weight : bucket.weights) {
        const ShardRange owned = owned_part(bucket, weight);
        if (!weight.counted || weight.sign_rate || owned.size == 0) continue;
        const std::int64_t first = weight.offset + owned.start - bucket.own_first;
        if (end == first) {
          kernel.ranges.back().count += owned.size;
        } else {
          kernel.ranges.push_back({kernel.operands.size(), first, owned.size});
        }
        end = first + owned.size;
      }
      kernel.operands.push_back(own_gradients(bucket));
      operands.push_back(BucketState{b, StateKind::Gradients});
    }
  }

  Operand own_gradients(const Bucket& bucket) const {
    return range(own_start(bucket), bucket.own_count, gradients_);
  }

  void add_norm() {
    const MadeBuffer largest = make_doubles("largest gradient", 1);
    const MadeBuffer sums = make_doubles("sums of squares", 2);
    const std::vector<DeviceId> group = norm_group();
    std::vector<StateOperand> operands;
    Kernel most{.kind = KernelKind::NormLargest, .phase = Phase::Step};
    add_counted(most, operands);
    most.operands.push_back(doubles(1, true));
    operands.push_back(largest);
    add(std::move(most), std::move(operands));
    all_reduce(Purpose::Norm, group, doubles(1), largest, Reduction::Max);

    operands = {};
    Kernel squares{.kind = KernelKind::NormSums, .phase = Phase::Step};
    add_counted(squares, operands);
    squares.operands.push_back(doubles(1));
    squares.operands.push_back(doubles(2, true));
    operands.insert(operands.end(), {largest, sums});
    add(std::move(squares), std::move(operands));
    all_reduce(Purpose::Norm, group, doubles(2), sums);

    Kernel factor{.kind = KernelKind::ClipFactor, .phase = Phase::Step};
    factor.operands = {doubles(2), doubles(2, true)};
    operands = {sums, StepOutput::Clip};
    if (skips_steps(plan_.precision)) {
      factor.operands.push_back(range(0, 1, BufferElement::Index, true));
      operands.emplace_back(StepOutput::Finite);
    }
    add(std::move(factor), std::move(operands));
  }

  MadeBuffer make(Buffer buffer) {
    result_.buffers.push_back(std::move(buffer));
    return {result_.buffers.size() - 1};
  }

  MadeBuffer make_doubles(std::string name, std::int64_t count) {
    return make({.name = std::move(name),
                 .count = count,
                 .element = BufferElement::Double,
                 .component = Component::Workspace});
  }

  // The first op that reads a bucket.
  std::size_t first_use(std::size_t number) const {
    std::size_t first = planned_.graph.ops.size();
    for (const BucketWeight& weight : weights_.buckets[number].weights) {
      for (const std::size_t op : weight.uses) first = std::min(first, op);
    }
    return first;
  }

  // What the next forward reads first is updated and gathered first, so that it need not wait for
  // all. State that is on the host comes while the bucket before is updated, and goes back after
  // its own update.
  void add_updates() {
    std::vector<std::size_t> trained;
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      if (!weights_.buckets[b].frozen) trained.push_back(b);
    }
    std::ranges::stable_sort(trained, {}, [&](std::size_t b) { return first_use(b); });
    std::vector<std::vector<StateOperand>> here(trained.size());
    for (std::size_t i = 0; i < trained.size(); ++i) {
      if (!plan_.offload_optimizer) {
        std::vector<StateOperand> state;
        for (const StateKind kind : optimizer_state(plan_))
          state.push_back(BucketState{trained[i], kind});
        add_update(trained[i], state);
        continue;
      }
      for (std::size_t next = i == 0 ? 0 : i + 1; next <= i + 1 && next < trained.size(); ++next) {
        here[next] = bring_state(trained[next]);
      }
      add_update(trained[i], here[i]);
      const auto kinds = optimizer_state(plan_);
      for (std::size_t s = 0; s < kinds.size(); ++s) {
        add(state_copy(CopyDirection::ToHost, trained[i]),
            {here[i][s], BucketState{trained[i], kinds[s]}});
      }
    }
  }

  HostCopy state_copy(CopyDirection direction, std::size_t number) const {
    return {direction, weights_.buckets[number].own_count, state_element(plan_)};
  }

  std::vector<StateOperand> bring_state(std::size_t number) {
    std::vector<StateOperand> here;
    for (const StateKind kind : optimizer_state(plan_)) {
      Buffer buffer = state_buffer(weights_, number, kind, plan_);
      buffer.space = Space::Device;
      buffer.persistent = false;
      here.push_back(make(std::move(buffer)));
      add(state_copy(CopyDirection::FromHost, number), {BucketState{number, kind}, here.back()});
    }
    return here;
  }

  void add_update(std::size_t number, const std::vector<StateOperand>& state) {
    add_adam(number, state);
    const Bucket& bucket = weights_.buckets[number];
    // Weights that are shared out are gathered before they are used.
    if (bucket.state_axes.empty() || bucket.shards_weights) return;
    transfer({.kind = TransferKind::AllGather,
              .purpose = Purpose::Weights,
              .group = placement_.group(bucket.state_axes),
              .source = range(bucket.own_first, bucket.own_count, BufferElement::Real),
              .target = range(0, bucket.count, BufferElement::Real)},
             BucketState{number, StateKind::Weights});
  }

  void add_adam(std::size_t number, const std::vector<StateOperand>& state) {
    const Bucket& bucket = weights_.buckets[number];
    Kernel kernel{.kind = KernelKind::AdamW, .phase = Phase::Step};
    const std::int64_t count = bucket.own_count;
    kernel.operands = {
        own_gradients(bucket), doubles(2),
        range(bucket.own_first - bucket.weights_first(), count, BufferElement::Real, true)};
    kernel.operands.insert(kernel.operands.end(), state.size(),
                           range(0, count, state_element(plan_), true));
    add_range(kernel, bucket, 0, bucket.decayed, true);
    add_range(kernel, bucket, bucket.decayed, bucket.moved, false);
    for (const BucketWeight& weight : bucket.weights) {
      if (!weight.sign_rate) continue;
      const std::size_t before = kernel.ranges.size();
      add_range(kernel, bucket, weight.offset, weight.offset + checked_product(weight.sizes),
                false);
      if (kernel.ranges.size() > before) kernel.ranges.back().sign_rate = weight.sign_rate;
    }
    std::vector<StateOperand> operands = {BucketState{number, StateKind::Gradients},
                                          StepOutput::Clip,
                                          BucketState{number, StateKind::Weights}};
    operands.insert(operands.end(), state.begin(), state.end());
    const bool may_skip = skips_steps(plan_.precision);
    if (may_skip) operands.emplace_back(StepOutput::Finite);
    add(std::move(kernel), std::move(operands));
    result_.tasks.back().has_predicate = may_skip;
  }

  // Elements `first` to `end` of the bucket, as far as this device updates them.
  static void add_range(Kernel& kernel, const Bucket& bucket, std::int64_t first, std::int64_t end,
                        bool decay) {
    first = std::max(first, bucket.own_first);
    end = std::min(end, bucket.own_first + bucket.own_count);
    if (first < end) kernel.ranges.push_back({0, first - bucket.own_first, end - first, decay});
  }

  const PlannedGraph& planned_;
  const WeightBuckets& weights_;
  const Plan& plan_;
  const Placement& placement_;
  const BufferElement gradients_;
  std::int64_t round_ = 0;
  StepEnd result_;
};

}  // namespace

std::vector<std::size_t> loss_slots(const PlannedGraph& planned, const Plan& plan) {
  std::set<std::size_t> slots;
  for (const Chunk& chunk : plan.chunks) {
    for (std::size_t op = chunk.first_op; op < chunk.end_op; ++op) {
      if (planned.adds_loss(op)) slots.insert(chunk.slot);
    }
  }
  return {slots.begin(), slots.end()};
}

std::vector<StateKind> optimizer_state(const Plan& plan) {
  std::vector<StateKind> kinds = {StateKind::FirstMoment, StateKind::SecondMoment};
  if (is_mixed(plan.precision)) kinds.push_back(StateKind::MasterWeights);
  return kinds;
}

Buffer state_buffer(const WeightBuckets& weights, std::size_t number, StateKind kind,
                    const Plan& plan) {
  const Bucket& bucket = weights.buckets[number];
  Buffer buffer{.count = bucket.own_count, .persistent = true};
  const auto name = [&](const char* what) { return fmt::format("{} {}", what, number); };
  switch (kind) {
    case StateKind::Weights:
      buffer.name = name("weights");
      buffer.component = Component::Weights;
      if (!bucket.shards_weights) buffer.count = bucket.count;
      return buffer;
    case StateKind::Gradients:
      buffer.name = name("gradients");
      buffer.component = Component::Gradients;
      buffer.element = gradient_element(plan);
      if (!bucket.shards_gradients) buffer.count = bucket.count;
      return buffer;
    case StateKind::FirstMoment:
    case StateKind::SecondMoment:
    case StateKind::MasterWeights:
      break;
  }
  buffer.name = name(kind == StateKind::FirstMoment    ? "moments"
                     : kind == StateKind::SecondMoment ? "squares"
                                                       : "master weights");
  buffer.component = Component::Optimizer;
  buffer.element = state_element(plan);
  if (plan.offload_optimizer) buffer.space = Space::Host;
  return buffer;
}

ShardRange owned_part(const Bucket& bucket, const BucketWeight& weight) {
  const std::int64_t count = checked_product(weight.sizes);
  const std::int64_t first = std::clamp(bucket.own_first - weight.offset, std::int64_t{0}, count);
  const std::int64_t end =
      std::clamp(bucket.own_first + bucket.own_count - weight.offset, std::int64_t{0}, count);
  return {first, end - first};
}

std::vector<StateTask> bucket_sync(const PlannedGraph& planned, const WeightBuckets& weights,
                                   std::size_t bucket, const Plan& plan,
                                   const Placement& placement) {
  StepEndWriter writer(planned, weights, plan, placement);
  writer.sync(bucket);
  return writer.tasks();
}

StepEnd end_of_step(const PlannedGraph& planned, const WeightBuckets& weights,
                    const std::vector<bool>& synced, const Plan& plan, const Placement& placement) {
  return StepEndWriter(planned, weights, plan, placement).write(synced);
}

}  // namespace meshwright
