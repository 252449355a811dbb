#include "simulator/lowering/state_buffers.h"

#include <fmt/format.h>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

BufferId add(Program& program, Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  return BufferId(program.buffers.size() - 1);
}

std::vector<StateKind> kinds_of(const Bucket& bucket, const Plan& plan) {
  std::vector<StateKind> kinds = {StateKind::Weights};
  if (bucket.frozen) return kinds;
  kinds.push_back(StateKind::Gradients);
  const std::vector<StateKind> optimizer = optimizer_state(plan);
  kinds.insert(kinds.end(), optimizer.begin(), optimizer.end());
  return kinds;
}

}  // namespace

StateBuffers::StateBuffers(Program& program, const PlannedGraph& planned,
                           const WeightBuckets& weights, const Plan& plan)
    : buckets_(weights.buckets.size()) {
  for (std::size_t b = 0; b < weights.buckets.size(); ++b) {
    const Bucket& bucket = weights.buckets[b];
    for (std::size_t w = 0; w < bucket.weights.size() && !bucket.frozen; ++w) {
      const BucketWeight& weight = bucket.weights[w];
      for (std::size_t u = 1; u < weight.uses.size(); ++u) {
        const std::string& name = planned.graph.weights[weight.weight.index()].name;
        use_gradients_[{b, w, u}] = add(program, {.name = fmt::format("gradient {} of {}", u, name),
                                                  .count = checked_product(weight.sizes),
                                                  .element = gradient_element(plan),
                                                  .component = Component::Gradients,
                                                  .persistent = true});
      }
    }
    for (const StateKind kind : kinds_of(bucket, plan)) {
      buckets_[b][kind] = add(program, state_buffer(weights, b, kind, plan));
    }
    for (const BucketWeight& weight : bucket.weights) {
      const ShardRange owned = owned_part(bucket, weight);
      WeightShard shard{.name = planned.graph.weights[weight.weight.index()].name,
                        .place = weight.place,
                        .sizes = weight.sizes,
                        .weight = buckets_[b].at(StateKind::Weights),
                        .gradient = {},
                        .master = {},
                        .offset = weight.offset,
                        .weight_first = bucket.weights_first(),
                        .gradient_first = bucket.gradients_first(),
                        .owned_first = owned.start,
                        .owned_count = owned.size,
                        .counted = weight.counted};
      if (!bucket.frozen) shard.gradient = buckets_[b].at(StateKind::Gradients);
      if (const auto master = buckets_[b].find(StateKind::MasterWeights);
          master != buckets_[b].end()) {
        shard.master = master->second;
        shard.master_first = bucket.own_first;
      }
      program.weights.push_back(std::move(shard));
    }
  }
}

BufferId StateBuffers::operator[](const BucketState& state) const {
  return buckets_[state.bucket].at(state.kind);
}

BufferId StateBuffers::operator[](const UseGradient& use) const {
  return use_gradients_.at({use.bucket, use.weight, use.use});
}

BufferId StateTaskWriter::buffer_of(const StateOperand& operand) const {
  if (const auto* state = std::get_if<BucketState>(&operand)) return buffers_[*state];
  if (const auto* use = std::get_if<UseGradient>(&operand)) return buffers_[*use];
  if (const auto* made = std::get_if<MadeBuffer>(&operand)) return made_[made->index];
  switch (std::get<StepOutput>(operand)) {
    case StepOutput::Loss:
      return *program_.loss;
    case StepOutput::Clip:
      return *program_.clip;
    case StepOutput::Finite:
      break;
  }
  return *program_.finite;
}

void StateTaskWriter::write(const std::vector<StateTask>& tasks, OrderKey& key) {
  for (const StateTask& task : tasks) {
    std::vector<BufferId> operands;
    for (const StateOperand& operand : task.operands) operands.push_back(buffer_of(operand));
    writer_.add_task(
        task.work, operands, {key.time + task.round, key.stage, key.index},
        {.waits_for_compute = task.waits_for_compute, .has_predicate = task.has_predicate});
    ++key.index;
  }
}

void StateTaskWriter::write(const StepEnd& end, OrderKey key) {
  for (const Buffer& buffer : end.buffers) made_.push_back(writer_.add_buffer(buffer));
  write(end.tasks, key);
}

}  // namespace meshwright
