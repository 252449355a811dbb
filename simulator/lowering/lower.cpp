#include "simulator/lowering/lower.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <map>

#include "simulator/lowering/fragment.h"
#include "simulator/lowering/offload.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/receive_places.h"
#include "simulator/lowering/sharded_buckets.h"
#include "simulator/lowering/state_buffers.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

// Writes the fragments of a device's chunks into its program as the plan's order has them.
class OrderWriter {
 public:
  OrderWriter(ProgramWriter& writer, const Program& program, const PlannedGraph& planned,
              const WeightBuckets& weights, const StateBuffers& buffers, const Plan& plan,
              const Placement& placement)
      : writer_(writer),
        program_(program),
        planned_(planned),
        weights_(weights),
        buffers_(buffers),
        plan_(plan),
        placement_(placement),
        sharded_(writer, planned, weights, buffers, plan, placement),
        state_tasks_(writer, program, buffers),
        synced_(weights.buckets.size(), false),
        missing_(weights.buckets.size(), 0) {
    for (const auto& [user, use] : weights.uses) ++missing_[use.bucket];
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
    state.waits_for_copies = first_beside_copies(state.fragment.forward);
    for (const auto* tasks : {&state.fragment.forward, &state.fragment.backward}) {
      for (const FragmentTask& task : *tasks) {
        state.works.push_back({.sums = sum_of(task)});
        if (state.works.back().sums == SumKind::Loss) state.adds_loss = true;
      }
    }
    for (const FragmentBuffer& buffer : state.fragment.buffers) {
      const bool own = std::holds_alternative<OfMicrobatch>(buffer.holds);
      state.own_buffers += own ? 1 : 0;
      state.fixed.push_back(own ? std::nullopt : fixed_buffer(buffer));
    }
  }

  // Returns which buckets have been summed over the replicas.
  std::vector<bool> write(const UnitTimes& times) {
    const auto& order = plan_.order[placement_.slot()];
    const auto received = place_receptions(plan_, times, placement_.slot(), receptions());
    reserve();
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
  // What a task adds to over micro-batches: the first one sets it.
  enum class SumKind { None, Loss, Gradients };
  struct TaskWork {
    SumKind sums = SumKind::None;
    std::optional<std::uint32_t> sets = {}, adds = {};  // what it is in the program
  };
  struct ChunkState {
    Fragment fragment;
    // By micro-batch; none: weights and gradients that every entry has whole for itself.
    std::vector<std::vector<std::optional<BufferId>>> buffers = {};
    std::size_t own_buffers = 0;  // that every micro-batch has
    // Buffers of weights, gradients and the loss that are there all the time.
    std::vector<std::optional<BufferId>> fixed = {};
    std::vector<TaskWork> works = {};  // by task, forward then backward
    // What an entry of each kind runs and what it receives: by the other chunk and the tensor, as
    // that is sent.
    std::array<std::vector<const FragmentTask*>, kEntryKinds> tasks = {};
    std::array<std::map<Message, const FragmentTask*>, kEntryKinds> received = {};
    std::vector<const FragmentTask*> early = {};  // of the backward
    bool adds_loss = false, gradients_started = false;
    const FragmentTask* waits_for_copies = nullptr;  // of the forward; null: it has none
    std::int64_t gradients_left = 0;                 // entries that compute them
  };

  static bool computes_weights(const OrderEntry& entry) {
    return entry.kind == EntryKind::Backward || entry.kind == EntryKind::WeightGradient;
  }

  static const std::vector<FragmentTask>& direction_of(const Fragment& fragment, EntryKind kind) {
    return kind == EntryKind::Forward ? fragment.forward : fragment.backward;
  }

  // Its first kernel, where something goes to the host.
  static const FragmentTask* first_beside_copies(const std::vector<FragmentTask>& forward) {
    const auto is_copy = [](const FragmentTask& task) {
      return std::holds_alternative<HostCopy>(task.work);
    };
    const auto is_kernel = [](const FragmentTask& task) {
      return std::holds_alternative<Kernel>(task.work);
    };
    if (std::ranges::none_of(forward, is_copy)) return nullptr;
    const auto first = std::ranges::find_if(forward, is_kernel);
    return first == forward.end() ? nullptr : &*first;
  }

  // What an entry runs. What it receives stands before it, or before an earlier entry.
  static std::vector<const FragmentTask*> tasks_of(const Fragment& fragment, EntryKind kind) {
    std::vector<const FragmentTask*> tasks;
    for (const FragmentTask& task : direction_of(fragment, kind)) {
      if (task.received || task.early) continue;
      const bool weights = task.phase == Phase::WeightGradient;
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
    if (entry.kind == EntryKind::Forward && chunk.adds_loss) loss_started_ = true;
    if (computes_weights(entry)) chunk.gradients_started = true;
  }

  void write_task(ChunkState& chunk, const FragmentTask& task, std::int32_t microbatch) {
    const auto& buffers = buffers_of(chunk, microbatch);
    operands_.clear();
    for (const FragmentBufferId id : task.operands) {
      const auto& own = buffers[id.index()];
      operands_.push_back(own ? *own : whole_buffer(chunk.fragment.buffers[id.index()]));
    }
    writer_.add_task(kind_of(task.work), what_of(chunk, task), operands_, next(), microbatch,
                     {.recompute = task.recompute,
                      .waits_for_compute = task.waits_for_compute,
                      .waits_for_copies = &task == chunk.waits_for_copies});
  }

  // What a weight, a gradient or the loss is in the program. None: entries have their own.
  std::optional<BufferId> fixed_buffer(const FragmentBuffer& buffer) const {
    const auto* weight = std::get_if<WeightOfOp>(&buffer.holds);
    if (!weight) return *program_.loss;
    const WeightUsed& use = weights_.use(weight->op, weight->weight);
    const Bucket& bucket = weights_.buckets[use.bucket];
    if (!weight->gradient) {
      if (bucket.shards_weights) return std::nullopt;
      return buffers_[BucketState{use.bucket, StateKind::Weights}];
    }
    if (use.use > 0) return buffers_[UseGradient{use.bucket, use.weight, use.use}];
    if (bucket.shards_gradients) return std::nullopt;
    return buffers_[BucketState{use.bucket, StateKind::Gradients}];
  }

  // Of the entry, where weights or gradients are shared out.
  BufferId whole_buffer(const FragmentBuffer& buffer) {
    const auto& weight = std::get<WeightOfOp>(buffer.holds);
    return sharded_.buffer_of({weights_.use(weight.op, weight.weight).bucket,
                               weight.gradient ? Component::Gradients : Component::Weights});
  }

  // Where it starts in there.
  std::int64_t offset_of(const FragmentBuffer& buffer) const {
    const auto* weight = std::get_if<WeightOfOp>(&buffer.holds);
    if (!weight) return 0;
    const WeightUsed& use = weights_.use(weight->op, weight->weight);
    if (weight->gradient && use.use > 0) return 0;
    return weights_.buckets[use.bucket].weights[use.weight].offset;
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

  SumKind sum_of(const FragmentTask& task) const {
    const auto* kernel = std::get_if<Kernel>(&task.work);
    const bool loss =
        kernel && (kernel->kind == KernelKind::Loss || kernel->kind == KernelKind::Balance);
    if (loss && task.phase == Phase::Forward) return SumKind::Loss;
    if (task.gradients.empty()) return SumKind::None;
    const WeightOfOp& first = task.gradients.front();
    const Bucket& bucket = weights_.buckets[weights_.use(first.op, first.weight).bucket];
    return bucket.shards_gradients ? SumKind::None : SumKind::Gradients;
  }

  // The first micro-batch sets sums over micro-batches, the others add to them.
  std::uint32_t what_of(ChunkState& chunk, const FragmentTask& task) {
    TaskWork& work = chunk.works[index_of(chunk.fragment, task)];
    const bool adds = (work.sums == SumKind::Loss && loss_started_) ||
                      (work.sums == SumKind::Gradients && chunk.gradients_started);
    auto& what = adds ? work.adds : work.sets;
    if (what) return *what;
    if (const auto* transfer = std::get_if<Transfer>(&task.work)) {
      return *(what = writer_.add_work(bound_to(*transfer, chunk.fragment, task)));
    }
    const auto* kernel = std::get_if<Kernel>(&task.work);
    if (!kernel) return *(what = writer_.add_work(task.work));
    Kernel bound = *kernel;
    bound.accumulate = bound.accumulate || adds;
    for (std::size_t o = 0; o < bound.operands.size(); ++o) {
      bound.operands[o].offset += offset_of(chunk.fragment.buffers[task.operands[o].index()]);
    }
    return *(what = writer_.add_work(std::move(bound)));
  }

  // A weight that is gathered for an op lies somewhere in its bucket.
  Transfer bound_to(Transfer transfer, const Fragment& fragment, const FragmentTask& task) const {
    if (transfer.kind == TransferKind::Receive) return transfer;
    transfer.source->offset += offset_of(fragment.buffers[task.operands[0].index()]);
    return transfer;
  }

  const std::vector<std::optional<BufferId>>& buffers_of(ChunkState& chunk,
                                                         std::int32_t microbatch) {
    const auto number = static_cast<std::size_t>(microbatch);
    if (number >= chunk.buffers.size()) chunk.buffers.resize(number + 1);
    auto& buffers = chunk.buffers[number];
    if (!buffers.empty()) return buffers;
    buffers = chunk.fixed;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const FragmentBuffer& buffer = chunk.fragment.buffers[b];
      if (!std::holds_alternative<OfMicrobatch>(buffer.holds)) continue;
      buffers[b] = writer_.add_buffer(buffer.buffer);
    }
    return buffers;
  }

  void reserve() {
    std::size_t tasks = 0, operands = 0, buffers = 0;
    for (const OrderEntry& entry : plan_.order[placement_.slot()]) {
      const ChunkState& chunk = chunks_.at(entry.chunk);
      const auto& direction = direction_of(chunk.fragment, entry.kind);
      tasks += direction.size();
      for (const FragmentTask& task : direction) operands += task.operands.size();
      if (entry.kind == EntryKind::Forward) buffers += chunk.own_buffers;
    }
    writer_.reserve(tasks, operands, buffers);
  }

  // Once a bucket has all its gradients it can be summed while the backward goes on.
  void finish_gradients(const FragmentTask& task) {
    for (const WeightOfOp& gradient : task.gradients) {
      const std::size_t number = weights_.use(gradient.op, gradient.weight).bucket;
      const Bucket& bucket = weights_.buckets[number];
      if (--missing_[number] > 0 || bucket.tied || !plan_.overlap_gradients) continue;
      if (bucket.shards_gradients) continue;
      state_tasks_.write(bucket_sync(planned_, weights_, number, plan_, placement_), key_);
      synced_[number] = true;
    }
  }

  ProgramWriter& writer_;
  const Program& program_;
  const PlannedGraph& planned_;
  const WeightBuckets& weights_;
  const StateBuffers& buffers_;
  const Plan& plan_;
  const Placement& placement_;
  ShardedBuckets sharded_;
  StateTaskWriter state_tasks_;
  std::map<std::int32_t, ChunkState> chunks_;
  bool loss_started_ = false;  // by any chunk
  std::vector<bool> synced_;
  std::vector<std::size_t> missing_;  // uses whose gradient each bucket lacks
  OrderKey key_;
  std::vector<BufferId> operands_;  // of the task at hand
};

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
  Program program{.device = device, .precision = plan.precision};
  const std::int64_t rows = plan.global_batch / replica_count(plan);
  program.batch = {.global_batch = plan.global_batch,
                   .first_row = placement.index_along(plan.batch_axes) * rows,
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
  if (std::ranges::count(loss_slots(planned, plan), placement.slot()) > 0)
    program.loss = add_doubles("loss", 1);
  program.clip = add_doubles("clip", 2);
  if (skips_steps(plan.precision)) {
    program.finite = writer.add_buffer({.name = "finite gradients",
                                        .count = 1,
                                        .element = BufferElement::Index,
                                        .component = Component::Workspace});
  }
  const WeightBuckets weights = cut_buckets(planned, plan, placement);
  const StateBuffers buffers(program, planned, weights, plan);

  OrderWriter order(writer, program, planned, weights, buffers, plan, placement);
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    const Chunk& chunk = plan.chunks[c];
    if (chunk.slot != placement.slot()) continue;
    Fragment fragment = lower_fragment(planned, plan, placement, {chunk.first_op, chunk.end_op});
    offload_kept(fragment, plan, c);
    order.add_chunk(static_cast<std::int32_t>(c), std::move(fragment));
  }
  const std::vector<bool> synced = order.write(times);
  const OrderKey end{end_of(times), static_cast<std::int32_t>(placement.slot()), 0};
  StateTaskWriter(writer, program, buffers)
      .write(end_of_step(planned, weights, synced, plan, placement), end);
  writer.finish();
  return program;
}

}  // namespace

Lowering::Lowering(const Model& model, const Plan& plan)
    : plan_(plan), planned_(plan_graph(model, plan)), times_(unit_times(plan).value()) {}

Program Lowering::program(DeviceId device) const {
  return lower_planned(planned_, plan_, times_, device);
}

Program lower(const Model& model, const Plan& plan, DeviceId device) {
  return Lowering(model, plan).program(device);
}

std::vector<Program> lower_all(const Model& model, const Plan& plan) {
  const Lowering lowering(model, plan);
  std::vector<Program> programs;
  for (const DeviceId device : devices_of(plan)) programs.push_back(lowering.program(device));
  return programs;
}

}  // namespace meshwright
