#include "simulator/lowering/lower.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <map>

#include "simulator/lowering/fragment.h"
#include "simulator/lowering/gradient_sync.h"
#include "simulator/lowering/offload.h"
#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/receive_places.h"
#include "simulator/lowering/sharded_buckets.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

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
        sharded_(writer, weights, plan, placement),
        synced_(weights.buckets.size(), false),
        missing_(weights.buckets.size(), 0) {
    for (const WeightUsed& use : weights.uses) ++missing_[use.bucket];
  }

  void add_chunk(std::int32_t chunk, Fragment fragment) {
    ChunkState& state = chunks_[chunk];
    state.fragment = std::move(fragment);
    for (const OrderEntry& entry : plan_.order[placement_.slot()]) {
      if (entry.chunk == chunk && computes_weights(entry)) ++state.gradients_left;
    }
    for (std::size_t kind = 0; kind < kEntryKinds; ++kind) {
      state.tasks[kind] = tasks_of(state.fragment, static_cast<EntryKind>(kind));
      state.received[kind] = received_by(state.fragment, static_cast<EntryKind>(kind));
    }
    for (const FragmentTask& task : state.fragment.backward) {
      if (task.early) state.early.push_back(&task);
    }
    state.kernels.resize(state.fragment.forward.size() + state.fragment.backward.size());
  }

  // Returns which buckets have been summed over the replicas.
  std::vector<bool> write(const UnitTimes& times) {
    const auto& order = plan_.order[placement_.slot()];
    const auto received = place_receptions(plan_, times, placement_.slot(), receptions());
    for (std::size_t i = 0; i < order.size(); ++i) {
      key_ = {times[placement_.slot()][i], static_cast<std::int32_t>(placement_.slot()), 0};
      for (const Reception& reception : received[i]) {
        write_receives(order[reception.entry], reception.chunk);
      }
      if (!comes_early(i)) write_early(order[i]);
      if (i + 1 < order.size() && comes_early(i + 1)) write_early(order[i + 1]);
      write_entry(order[i]);
    }
    sharded_.finish(key_);
    return synced_;
  }

 private:
  static constexpr std::size_t kEntryKinds = 4;
  struct ChunkState {
    Fragment fragment;
    // By micro-batch; none: a whole bucket, which belongs to an entry.
    std::vector<std::vector<std::optional<BufferId>>> buffers = {};
    // By task, forward then backward: what sets sums and what adds to them.
    std::vector<std::array<std::optional<std::uint32_t>, 2>> kernels = {};
    // What an entry of each kind runs and what it receives: by the other chunk and the tensor, as
    // that is sent.
    std::array<std::vector<const FragmentTask*>, kEntryKinds> tasks = {};
    std::array<std::map<Message, const FragmentTask*>, kEntryKinds> received = {};
    std::vector<const FragmentTask*> early = {};  // of the backward
    bool loss_started = false, gradients_started = false;
    std::int64_t gradients_left = 0;  // entries that compute them
  };

  static bool computes_weights(const OrderEntry& entry) {
    return entry.kind == EntryKind::Backward || entry.kind == EntryKind::WeightGradient;
  }

  static const std::vector<FragmentTask>& direction_of(const Fragment& fragment, EntryKind kind) {
    return kind == EntryKind::Forward ? fragment.forward : fragment.backward;
  }

  // What an entry runs. What it receives stands before it, or before an earlier entry.
  static std::vector<const FragmentTask*> tasks_of(const Fragment& fragment, EntryKind kind) {
    std::vector<const FragmentTask*> tasks;
    for (const FragmentTask& task : direction_of(fragment, kind)) {
      if (task.received || task.early) continue;
      const bool weights = task.part == KernelPart::WeightGradient;
      if (kind == EntryKind::InputGradient && weights) continue;
      if (kind == EntryKind::WeightGradient && !weights) continue;
      tasks.push_back(&task);
    }
    return tasks;
  }

  static std::map<Message, const FragmentTask*> received_by(const Fragment& fragment,
                                                            EntryKind kind) {
    std::map<Message, const FragmentTask*> received;
    if (kind == EntryKind::WeightGradient) return received;
    for (const FragmentTask& task : direction_of(fragment, kind)) {
      if (task.received) received[*task.received] = &task;
    }
    return received;
  }

  const std::map<Message, const FragmentTask*>& received_by(const OrderEntry& entry) const {
    return chunks_.at(entry.chunk).received[static_cast<std::size_t>(entry.kind)];
  }

  std::vector<Reception> receptions() const {
    const auto& order = plan_.order[placement_.slot()];
    std::vector<Reception> receptions;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const auto& [message, task] : received_by(order[i])) {
        const Reception reception{i, message.chunk};
        if (receptions.empty() || receptions.back() != reception) receptions.push_back(reception);
      }
    }
    return receptions;
  }

  void write_receives(const OrderEntry& entry, std::size_t from) {
    for (const auto& [message, task] : received_by(entry)) {
      if (message.chunk == from) write_task(chunks_.at(entry.chunk), *task, entry.microbatch);
    }
  }

  // Whether what an entry brings back early stands before the entry ahead of it.
  bool comes_early(std::size_t i) const {
    const auto& order = plan_.order[placement_.slot()];
    if (i == 0) return false;
    const bool own_forward = order[i - 1].kind == EntryKind::Forward &&
                             order[i - 1].chunk == order[i].chunk &&
                             order[i - 1].microbatch == order[i].microbatch;
    return !own_forward;
  }

  void write_early(const OrderEntry& entry) {
    if (entry.kind != EntryKind::Backward && entry.kind != EntryKind::InputGradient) return;
    ChunkState& chunk = chunks_.at(entry.chunk);
    for (const FragmentTask* task : chunk.early) write_task(chunk, *task, entry.microbatch);
  }

  void write_entry(const OrderEntry& entry) {
    ChunkState& chunk = chunks_.at(entry.chunk);
    const bool last = computes_weights(entry) && --chunk.gradients_left == 0;
    const auto& tasks = chunk.tasks[static_cast<std::size_t>(entry.kind)];
    sharded_.start_entry(chunk.fragment, tasks, entry.microbatch);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      sharded_.gather_before(t, key_);
      write_task(chunk, *tasks[t], entry.microbatch);
      sharded_.scatter_after(*tasks[t], key_);
      if (last) finish_gradients(*tasks[t]);
    }
    sharded_.end_entry(key_);
    if (entry.kind == EntryKind::Forward) chunk.loss_started = true;
    if (computes_weights(entry)) chunk.gradients_started = true;
  }

  void write_task(ChunkState& chunk, const FragmentTask& task, std::int32_t microbatch) {
    const auto& buffers = buffers_of(chunk, microbatch);
    operands_.clear();
    for (const FragmentBufferId id : task.operands) {
      const auto& own = buffers[id.index()];
      operands_.push_back(own ? *own
                              : sharded_.buffer_of(*chunk.fragment.buffers[id.index()].whole));
    }
    writer_.add_task(task.kind, what_of(chunk, task), operands_, next(), microbatch,
                     {task.recompute, task.waits_for_compute});
  }

  OrderKey next() {
    const OrderKey key = key_;
    ++key_.index;
    return key;
  }

  static std::size_t index_of(const Fragment& fragment, const FragmentTask& task) {
    const bool forward = std::less_equal<>()(fragment.forward.data(), &task) &&
                         std::less<>()(&task, fragment.forward.data() + fragment.forward.size());
    return forward ? static_cast<std::size_t>(&task - fragment.forward.data())
                   : fragment.forward.size() +
                         static_cast<std::size_t>(&task - fragment.backward.data());
  }

  // The first micro-batch sets sums over micro-batches, the others add to them.
  std::uint32_t what_of(ChunkState& chunk, const FragmentTask& task) {
    const bool sums_loss = task.kind == TaskKind::Kernel && task.kernel.kind == KernelKind::Loss &&
                           task.part == KernelPart::Forward;
    const bool sums_gradients = !task.gradients.empty() &&
                                !weights_.buckets[task.gradients.front().bucket].shards_gradients;
    const bool adds =
        (sums_loss && chunk.loss_started) || (sums_gradients && chunk.gradients_started);
    auto& what = chunk.kernels[index_of(chunk.fragment, task)][adds ? 1 : 0];
    if (what) return *what;
    if (task.kind == TaskKind::Transfer) return *(what = writer_.add_transfer(task.transfer));
    if (task.kind == TaskKind::Copy) return *(what = writer_.add_copy(task.copy));
    Kernel kernel = task.kernel;
    kernel.accumulate = adds;
    return *(what = writer_.add_kernel(std::move(kernel)));
  }

  const std::vector<std::optional<BufferId>>& buffers_of(ChunkState& chunk,
                                                         std::int32_t microbatch) {
    const auto number = static_cast<std::size_t>(microbatch);
    if (number >= chunk.buffers.size()) chunk.buffers.resize(number + 1);
    auto& buffers = chunk.buffers[number];
    if (!buffers.empty()) return buffers;
    buffers.reserve(chunk.fragment.buffers.size());
    for (const FragmentBuffer& buffer : chunk.fragment.buffers) {
      const bool here = buffer.persistent || buffer.whole;
      buffers.push_back(here ? buffer.persistent
                             : std::optional(writer_.add_buffer(buffer.buffer)));
    }
    return buffers;
  }

  // Once a bucket has all its gradients it can be summed while the backward goes on.
  void finish_gradients(const FragmentTask& task) {
    for (const WeightUsed& use : task.gradients) {
      const Bucket& bucket = weights_.buckets[use.bucket];
      if (--missing_[use.bucket] > 0 || bucket.tied || !plan_.overlap_gradients) continue;
      if (bucket.shards_gradients) continue;
      add_bucket_sync(writer_, bucket, plan_, placement_, next());
      synced_[use.bucket] = true;
    }
  }

  ProgramWriter& writer_;
  Program& program_;
  const WeightBuckets& weights_;
  const Plan& plan_;
  const Placement& placement_;
  ShardedBuckets sharded_;
  std::map<std::int32_t, ChunkState> chunks_;
  std::vector<bool> synced_;
  std::vector<std::size_t> missing_;  // uses whose gradient each bucket lacks
  OrderKey key_;
  std::vector<BufferId> operands_;  // of the task at hand
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
    Fragment fragment = lower_chunk(program, planned, plan, placement, sharding, weights, c);
    offload_kept(fragment, plan, c);
    order.add_chunk(static_cast<std::int32_t>(c), std::move(fragment));
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

std::vector<Program> lower_devices(const Model& model, const Plan& plan,
                                   std::span<const DeviceId> devices) {
  const auto times = unit_times(plan);
  assert(times);
  const PlannedGraph planned = plan_graph(model, plan);
  std::vector<Program> programs;
  for (const DeviceId device : devices) {
    programs.push_back(lower_planned(planned, plan, *times, device));
  }
  return programs;
}

std::vector<Program> lower_all(const Model& model, const Plan& plan) {
  return lower_devices(model, plan, devices_of(plan));
}

}  // namespace meshwright
