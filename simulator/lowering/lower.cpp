#include "simulator/lowering/lower.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>

#include "simulator/lowering/fragment.h"
#include "simulator/lowering/gradient_sync.h"
#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

using UnitTimes = std::vector<std::vector<std::int64_t>>;

// Writes the fragments of a device's chunks into its program as the plan's order has them.
class OrderWriter {
 public:
  OrderWriter(ProgramWriter& writer, Program& program, const WeightBuckets& weights,
              const Plan& plan, const Placement& placement)
      : writer_(writer),
        program_(program),
        weights_(weights),
        plan_(plan),
        placement_(placement),
        synced_(weights.buckets.size(), false),
        missing_(weights.buckets.size(), 0) {
    for (const WeightUsed& use : weights.uses) ++missing_[bucket_of(use)];
  }

  void add_chunk(std::int32_t chunk, Fragment fragment) {
    chunks_.emplace(chunk, ChunkState{.fragment = std::move(fragment)});
    for (const OrderEntry& entry : plan_.order[placement_.slot()]) {
      if (entry.chunk == chunk && computes_weights(entry)) ++chunks_.at(chunk).gradients_left;
    }
  }

  // Returns which buckets have been summed over the replicas.
  std::vector<bool> write(const UnitTimes& times) {
    const auto& order = plan_.order[placement_.slot()];
    for (std::size_t i = 0; i < order.size(); ++i) {
      write_entry(order[i], times[placement_.slot()][i]);
    }
    return synced_;
  }

 private:
  struct ChunkState {
    Fragment fragment;
    std::map<std::int32_t, std::vector<BufferId>> buffers = {};  // by micro-batch
    std::map<const FragmentTask*, std::array<std::optional<std::uint32_t>, 2>> kernels = {};
    bool loss_started = false, gradients_started = false;
    std::int64_t gradients_left = 0;  // entries that compute them
  };

  static bool computes_weights(const OrderEntry& entry) {
    return entry.kind == EntryKind::Backward || entry.kind == EntryKind::WeightGradient;
  }

  std::size_t bucket_of(const WeightUsed& use) const {
    const auto found =
        std::find_if(weights_.buckets.begin(), weights_.buckets.end(), [&](const Bucket& bucket) {
          return std::find(bucket.shards.begin(), bucket.shards.end(), use.shard) !=
                 bucket.shards.end();
        });
    return static_cast<std::size_t>(found - weights_.buckets.begin());
  }

  void write_entry(const OrderEntry& entry, std::int64_t time) {
    ChunkState& chunk = chunks_.at(entry.chunk);
    key_ = {time, static_cast<std::int32_t>(placement_.slot()), 0};
    const bool forward = entry.kind == EntryKind::Forward;
    const bool last = computes_weights(entry) && --chunk.gradients_left == 0;
    for (const FragmentTask& task : forward ? chunk.fragment.forward : chunk.fragment.backward) {
      const bool weights = task.part == KernelPart::WeightGradient;
      if (entry.kind == EntryKind::InputGradient && weights) continue;
      if (entry.kind == EntryKind::WeightGradient && !weights) continue;
      write_task(chunk, task, entry.microbatch);
      if (last) finish_gradients(task);
    }
    if (forward) chunk.loss_started = true;
    if (computes_weights(entry)) chunk.gradients_started = true;
  }

  void write_task(ChunkState& chunk, const FragmentTask& task, std::int32_t microbatch) {
    const auto& buffers = buffers_of(chunk, microbatch);
    std::vector<BufferId> operands;
    for (const FragmentBufferId id : task.operands) operands.push_back(buffers[id.index()]);
    writer_.add_task(task.kind, what_of(chunk, task), std::move(operands), next(), microbatch);
  }

  OrderKey next() {
    const OrderKey key = key_;
    ++key_.index;
    return key;
  }

  // The first micro-batch sets sums over micro-batches, the others add to them.
  std::uint32_t what_of(ChunkState& chunk, const FragmentTask& task) {
    const bool sums_loss = task.kind == TaskKind::Kernel && task.kernel.kind == KernelKind::Loss &&
                           task.part == KernelPart::Forward;
    const bool adds =
        (sums_loss && chunk.loss_started) || (!task.gradients.empty() && chunk.gradients_started);
    auto& what = chunk.kernels[&task][adds ? 1 : 0];
    if (what) return *what;
    if (task.kind == TaskKind::Transfer) return *(what = writer_.add_transfer(task.transfer));
    Kernel kernel = task.kernel;
    kernel.accumulate = adds;
    return *(what = writer_.add_kernel(std::move(kernel)));
  }

  const std::vector<BufferId>& buffers_of(ChunkState& chunk, std::int32_t microbatch) {
    const auto [entry, added] = chunk.buffers.try_emplace(microbatch);
    if (!added) return entry->second;
    for (const FragmentBuffer& buffer : chunk.fragment.buffers) {
      entry->second.push_back(buffer.persistent ? *buffer.persistent
                                                : writer_.add_buffer(buffer.buffer));
    }
    return entry->second;
  }

  // Once a bucket has all its gradients it can be summed while the backward goes on.
  void finish_gradients(const FragmentTask& task) {
    for (const WeightUsed& use : task.gradients) {
      const std::size_t number = bucket_of(use);
      const Bucket& bucket = weights_.buckets[number];
      if (--missing_[number] > 0 || bucket.tied || !plan_.overlap_gradients) continue;
      add_bucket_sync(writer_, bucket, plan_, placement_, next());
      synced_[number] = true;
    }
  }

  ProgramWriter& writer_;
  Program& program_;
  const WeightBuckets& weights_;
  const Plan& plan_;
  const Placement& placement_;
  std::map<std::int32_t, ChunkState> chunks_;
  std::vector<bool> synced_;
  std::vector<std::size_t> missing_;  // uses whose gradient each bucket lacks
  OrderKey key_;
};

bool has_loss(const PlannedGraph& planned, const Plan& plan, const Placement& placement) {
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.slot != placement.slot()) continue;
    for (std::size_t op = chunk.first_op; op < chunk.end_op; ++op) {
      if (planned.graph.ops[op].kind == OpKind::CrossEntropy) return true;
    }
  }
  return false;
}

std::int64_t end_of(const UnitTimes& times) {
  std::int64_t end = 0;
  for (const auto& slot : times) {
    for (const std::int64_t time : slot) end = std::max(end, time + 1);
  }
  return end;
}

Program lower_planned(const PlannedGraph& planned, const Plan& plan, const UnitTimes& times,
                      DeviceId device) {
  const Placement placement(plan, device);
  const OpSharding sharding(planned, plan, placement);
  Program program{.device = device, .precision = plan.precision};
  program.batch = {
      .global_batch = plan.global_batch,
      .first_row = placement.coordinate("dp") * (plan.global_batch / placement.size("dp")),
      .micro_batch = plan.micro_batch,
      .sequence = plan.sequence};
  ProgramWriter writer(program);
  const auto add_doubles = [&](const char* name, std::int64_t count) {
    return writer.add_buffer({.name = name,
                              .count = count,
                              .element = BufferElement::Double,
                              .component = Component::Workspace,
                              .persistent = true});
  };
  if (has_loss(planned, plan, placement)) program.loss = add_doubles("loss", 1);
  program.clip = add_doubles("clip", 2);
  const WeightBuckets weights = add_weights(program, planned, plan, placement, sharding);

  OrderWriter order(writer, program, weights, plan, placement);
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    if (plan.chunks[c].slot != placement.slot()) continue;
    order.add_chunk(static_cast<std::int32_t>(c),
                    lower_chunk(program, planned, plan, placement, sharding, weights, c));
  }
  const std::vector<bool> synced = order.write(times);
  add_step_end(writer, program, weights, synced, plan, placement, end_of(times));
  writer.finish();
  return program;
}

}  // namespace

Program lower(const Model& model, const Plan& plan, DeviceId device) {
  const auto times = unit_times(plan);
  assert(times);
  return lower_planned(plan_graph(model, plan), plan, *times, device);
}

std::vector<Program> lower_all(const Model& model, const Plan& plan) {
  const auto times = unit_times(plan);
  assert(times);
  const PlannedGraph planned = plan_graph(model, plan);
  std::vector<DeviceId> devices;
  for (const Slot& slot : plan.slots) {
    devices.insert(devices.end(), slot.devices.begin(), slot.devices.end());
  }
  std::sort(devices.begin(), devices.end());
  std::vector<Program> programs;
  for (const DeviceId device : devices) {
    programs.push_back(lower_planned(planned, plan, *times, device));
  }
  return programs;
}

}  // namespace meshwright
