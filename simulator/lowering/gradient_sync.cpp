#include "simulator/lowering/gradient_sync.h"

#include <algorithm>

#include "simulator/lowering/view.h"

namespace meshwright {
namespace {

Operand doubles(std::int64_t count, bool written = false) {
  Operand operand = dense_operand({count}, BufferElement::Double);
  operand.written = written;
  return operand;
}

class StepEnd {
 public:
  StepEnd(ProgramWriter& writer, const Program& program, const WeightBuckets& weights,
          const Plan& plan, const Placement& placement, std::int64_t after)
      : writer_(writer),
        program_(program),
        weights_(weights),
        plan_(plan),
        placement_(placement),
        gradients_(gradient_element(plan)),
        time_(after) {}

  void add(const std::vector<bool>& synced) {
    add_tied();
    ++time_;
    for (std::size_t b = 0; b < weights_.buckets.size(); ++b) {
      const Bucket& bucket = weights_.buckets[b];
      if (synced[b] || !bucket.gradients || bucket.shards_gradients) continue;
      add_bucket_sync(writer_, bucket, plan_, placement_, next());
    }
    for (const Bucket& bucket : weights_.buckets) {
      if (!bucket.partial || !bucket.gradients) continue;
      writer_.add_transfer_task({.kind = TransferKind::AllReduce,
                                 .purpose = Purpose::Gradients,
                                 .group = placement_.group("tp"),
                                 .source = own_gradients(bucket),
                                 .target = own_gradients(bucket)},
                                *bucket.gradients, next());
    }
    ++time_;
    if (program_.loss) {
      writer_.add_transfer_task({.kind = TransferKind::AllReduce,
                                 .purpose = Purpose::Loss,
                                 .group = placement_.group("dp"),
                                 .source = doubles(1),
                                 .target = doubles(1)},
                                *program_.loss, next());
    }
    ++time_;
    add_norm();
    ++time_;
    add_updates();
  }

 private:
  OrderKey next() { return {time_, static_cast<std::int32_t>(placement_.slot()), index_++}; }

  // Gradients of one weight from several ops of this device, then from several slots.
  void add_tied() {
    for (const Bucket& bucket : weights_.buckets) {
      if (!bucket.tied) continue;
      const std::size_t shard = bucket.shards.front();
      const std::int64_t count = element_count(dense_operand(program_.weights[shard].sizes));
      for (const WeightUsed& use : weights_.uses) {
        if (use.shard == shard && use.own_gradient) add_use(bucket, use, count);
      }
      std::vector<DeviceId> group;
      for (const std::size_t slot : bucket.slots) group.push_back(placement_.peer(slot));
      writer_.add_transfer_task({.kind = TransferKind::AllReduce,
                                 .purpose = Purpose::Tied,
                                 .group = group,
                                 .source = range(0, count, gradients_),
                                 .target = range(0, count, gradients_)},
                                *bucket.gradients, next());
    }
  }

  void add_use(const Bucket& bucket, const WeightUsed& use, std::int64_t count) {
    Kernel kernel{.kind = KernelKind::Sum, .part = KernelPart::InputGradient};
    kernel.operands = {range(0, count, gradients_), range(0, count, gradients_),
                       range(0, count, gradients_, true)};
    kernel.has_addend = true;
    kernel.name = program_.weights[use.shard].name;
    writer_.add_kernel_task(std::move(kernel),
                            {*use.own_gradient, *bucket.gradients, *bucket.gradients}, next());
  }

  // Devices whose gradients together are all gradients, each counted once.
  std::vector<DeviceId> norm_group() const {
    std::vector<DeviceId> group;
    for (const Slot& slot : plan_.slots) {
      for (std::size_t i = 0; i < slot.devices.size(); ++i) {
        const bool same_replica = coordinate_of(slot, i, "dp") == placement_.coordinate("dp");
        if (plan_.zero > 0 || same_replica) group.push_back(slot.devices[i]);
      }
    }
    std::sort(group.begin(), group.end());
    return group;
  }

  // What this device updates of each bucket, and the ranges of it that it counts: neighbours are
  // joined.
  void add_counted(Kernel& kernel, std::vector<BufferId>& buffers) const {
    for (const Bucket& bucket : weights_.buckets) {
      if (!bucket.gradients) continue;
      std::optional<std::int64_t> end;  // of the range before
      for (const std::size_t index : bucket.shards) {
        const WeightShard& shard = program_.weights[index];
        if (!shard.counted || shard.owned_count == 0) continue;
        const std::int64_t first = shard.offset + shard.owned_first - bucket.own_first;
        if (end == first) {
          kernel.ranges.back().count += shard.owned_count;
        } else {
          kernel.ranges.push_back({kernel.operands.size(), first, shard.owned_count});
        }
        end = first + shard.owned_count;
      }
      kernel.operands.push_back(own_gradients(bucket));
      buffers.push_back(*bucket.gradients);
    }
  }

  Operand own_gradients(const Bucket& bucket) const {
    return range(bucket.own_first - bucket.gradients_first(), bucket.own_count, gradients_);
  }

  void add_norm() {
    const BufferId largest = add_doubles("largest gradient", 1);
    const BufferId sums = add_doubles("sums of squares", 2);
    const std::vector<DeviceId> group = norm_group();
    const auto reduce = [&](BufferId buffer, std::int64_t count, Reduction reduction) {
      writer_.add_transfer_task({.kind = TransferKind::AllReduce,
                                 .reduction = reduction,
                                 .purpose = Purpose::Norm,
                                 .group = group,
                                 .source = doubles(count),
                                 .target = doubles(count)},
                                buffer, next());
    };
    std::vector<BufferId> buffers;
    Kernel most{.kind = KernelKind::NormLargest, .part = KernelPart::Step};
    add_counted(most, buffers);
    most.operands.push_back(doubles(1, true));
    buffers.push_back(largest);
    writer_.add_kernel_task(std::move(most), std::move(buffers), next());
    reduce(largest, 1, Reduction::Max);

    buffers.clear();
    Kernel squares{.kind = KernelKind::NormSums, .part = KernelPart::Step};
    add_counted(squares, buffers);
    squares.operands.push_back(doubles(1));
    squares.operands.push_back(doubles(2, true));
    buffers.insert(buffers.end(), {largest, sums});
    writer_.add_kernel_task(std::move(squares), std::move(buffers), next());
    reduce(sums, 2, Reduction::Sum);

    Kernel factor{.kind = KernelKind::ClipFactor, .part = KernelPart::Step};
    factor.operands = {doubles(2), doubles(2, true)};
    writer_.add_kernel_task(std::move(factor), {sums, *program_.clip}, next());
  }

  BufferId add_doubles(std::string name, std::int64_t count) {
    return writer_.add_buffer({.name = std::move(name),
                               .count = count,
                               .element = BufferElement::Double,
                               .component = Component::Workspace});
  }

  static std::vector<BufferId> state_of(const Bucket& bucket) {
    std::vector<BufferId> state = {*bucket.first_moment, *bucket.second_moment};
    if (bucket.master) state.push_back(*bucket.master);
    return state;
  }

  // State that is on the host comes while the bucket before is updated, and goes back after its
  // own update.
  void add_updates() {
    std::vector<const Bucket*> trained;
    for (const Bucket& bucket : weights_.buckets) {
      if (bucket.gradients) trained.push_back(&bucket);
    }
    std::vector<std::vector<BufferId>> here(trained.size());
    for (std::size_t i = 0; i < trained.size(); ++i) {
      if (!plan_.offload_optimizer) {
        add_update(*trained[i], state_of(*trained[i]));
        continue;
      }
      for (std::size_t next = i == 0 ? 0 : i + 1; next <= i + 1 && next < trained.size(); ++next) {
        here[next] = bring_state(*trained[next]);
      }
      add_update(*trained[i], here[i]);
      const std::vector<BufferId> stored = state_of(*trained[i]);
      for (std::size_t s = 0; s < stored.size(); ++s) {
        writer_.add_copy_task(CopyDirection::ToHost, here[i][s], stored[s], next());
      }
    }
  }

  std::vector<BufferId> bring_state(const Bucket& bucket) {
    std::vector<BufferId> here;
    for (const BufferId stored : state_of(bucket)) {
      Buffer buffer = program_.buffers[stored.index()];
      buffer.space = Space::Device;
      buffer.persistent = false;
      here.push_back(writer_.add_buffer(std::move(buffer)));
      writer_.add_copy_task(CopyDirection::FromHost, stored, here.back(), next());
    }
    return here;
  }

  void add_update(const Bucket& bucket, const std::vector<BufferId>& state) {
    add_adam(bucket, state);
    // Weights that are sharded are gathered before they are used.
    if (plan_.zero == 0 || bucket.shards_weights) return;
    writer_.add_transfer_task(
        {.kind = TransferKind::AllGather,
         .purpose = Purpose::Weights,
         .group = placement_.group("dp"),
         .source = range(bucket.own_first, bucket.own_count, BufferElement::Real),
         .target = range(0, bucket.count, BufferElement::Real)},
        bucket.weights, next());
  }

  void add_adam(const Bucket& bucket, const std::vector<BufferId>& state) {
    Kernel kernel{.kind = KernelKind::AdamW, .part = KernelPart::Step};
    const std::int64_t count = bucket.own_count;
    kernel.operands = {
        own_gradients(bucket), doubles(2),
        range(bucket.own_first - bucket.weights_first(), count, BufferElement::Real, true)};
    kernel.operands.insert(kernel.operands.end(), state.size(),
                           range(0, count, state_element(plan_), true));
    add_range(kernel, bucket, 0, bucket.decayed, true);
    add_range(kernel, bucket, bucket.decayed, bucket.filled, false);
    std::vector<BufferId> buffers = {*bucket.gradients, *program_.clip, bucket.weights};
    buffers.insert(buffers.end(), state.begin(), state.end());
    writer_.add_kernel_task(std::move(kernel), std::move(buffers), next());
  }

  // Elements `first` to `end` of the bucket, as far as this device updates them.
  static void add_range(Kernel& kernel, const Bucket& bucket, std::int64_t first, std::int64_t end,
                        bool decay) {
    first = std::max(first, bucket.own_first);
    end = std::min(end, bucket.own_first + bucket.own_count);
    if (first < end) kernel.ranges.push_back({0, first - bucket.own_first, end - first, decay});
  }

  ProgramWriter& writer_;
  const Program& program_;
  const WeightBuckets& weights_;
  const Plan& plan_;
  const Placement& placement_;
  const BufferElement gradients_;
  std::int64_t time_;
  std::int32_t index_ = 0;
};

}  // namespace

void add_bucket_sync(ProgramWriter& writer, const Bucket& bucket, const Plan& plan,
                     const Placement& placement, OrderKey key) {
  const bool scatters = plan.zero > 0;
  const Operand whole = range(0, bucket.count, gradient_element(plan));
  const Operand own = range(bucket.own_first, bucket.own_count, gradient_element(plan));
  writer.add_transfer_task(
      {.kind = scatters ? TransferKind::ReduceScatter : TransferKind::AllReduce,
       .purpose = Purpose::Gradients,
       .group = placement.group("dp"),
       .source = whole,
       .target = scatters ? own : whole},
      *bucket.gradients, key);
}

void add_step_end(ProgramWriter& writer, const Program& program, const WeightBuckets& weights,
                  const std::vector<bool>& synced, const Plan& plan, const Placement& placement,
                  std::int64_t after) {
  StepEnd(writer, program, weights, plan, placement, after).add(synced);
}

}  // namespace meshwright
