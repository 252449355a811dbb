// Bounds of plans of which the division of work is known, and its place, before blocks are played.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/bound/grown_work.h"
#include "planner/bound/plan_bound.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

// What a kernel uses of a micro-batch of so many samples.
Bytes used_by(const BlockTask& task, const Kernel& kernel, std::int64_t samples,
              Precision precision) {
  std::map<std::size_t, Bytes> buffers;
  for (const BlockTask::Used& used : task.buffers) {
    if (used.operand >= kernel.operands.size()) continue;
    const Operand& operand = kernel.operands[used.operand];
    const Bytes own = bytes_per_element(operand.element, precision) * element_count(operand);
    const Bytes whole = used.one + (used.two - used.one) * (samples - 1);
    Bytes& most = buffers[used.buffer];
    most = std::max(most, std::min(own, whole));
  }
  Bytes all;
  for (const auto& [buffer, bytes] : buffers) all += bytes;
  return all;
}

}  // namespace

double Bounds::kernel_s(const Kernel& kernel) const {
  const DeviceId device(0);
  return setting_.costs->kernel(kernel, batch_.precision, device).time.value() /
         speed_of(setting_.cluster, device);
}

// Where the devices that have a share of the experts are not all alike, nothing is said. Each
// replica has one of them, or where devices share no expert's products out all of its own.
double Bounds::exchange_s(Transfer transfer, const PlanChoices& choices) const {
  const std::int64_t sharing = replicas_sharing_experts(choices);
  if (!transfer_alike(choices) || choices.cp > 1) return 0;
  const bool whole = expert_tensor_degree(choices) == 1 && choices.ep % choices.tp == 0;
  const std::int64_t own = whole ? choices.tp : 1;
  if (static_cast<std::int64_t>(transfer.group.size()) != own * sharing) return 0;
  const std::int64_t in_node = choices.place.empty() ? sharing : repeats_in_node(choices);
  if (in_node % sharing != 0 && sharing % in_node != 0) return 0;
  const std::int64_t own_in_node =
      choices.place.empty() || !whole ? own : key_of(choices).tp_inside;
  const ReplicaGroup group{own * sharing, own_in_node * std::min(in_node, sharing)};
  if (!has_room_for(group)) return 0;
  transfer.group = devices_of(group);
  return setting_.costs->transfer(transfer, batch_.precision).time.value();
}

// In another place sums may take other steps, which are no less: of sums that all get, or that each
// gets a part of, and of parts that all get, none takes less than the cheapest way does.
double Bounds::tensor_s(const Transfer& transfer, const PlanChoices& choices,
                        const std::optional<ReplicaGroup>& group) {
  if (!group || static_cast<std::int64_t>(transfer.group.size()) != choices.tp) return 0;
  return sum_s(transfer, *group, choices.sequence_parallel);
}

// None: they do not all transfer alike, or about different things.
std::optional<Bounds::ReplicaGroup> Bounds::tensor_group(const PlanChoices& choices) const {
  const ReplicaGroup group{choices.tp,
                           choices.place.empty() ? choices.tp : key_of(choices).tp_inside};
  const bool alike = transfer_alike(choices) && choices.tp % group.inside == 0 &&
                     has_room_for(group) && stage_axes(choices, setting_.model).tensor.size() == 1;
  return alike ? std::optional(group) : std::nullopt;
}

// Of some of the tensor devices, wherever these stand in nodes.
double Bounds::square_s(const Transfer& transfer, const PlanChoices& choices) {
  const auto members = static_cast<std::int64_t>(transfer.group.size());
  if (!even_ || members == 1) return 0;
  std::optional<double> least;
  for (std::int64_t inside = 1; inside <= members; ++inside) {
    const ReplicaGroup group{members, inside};
    const bool together = key_of(choices).tp_inside == choices.tp && inside < members;
    if (members % inside != 0 || together || !has_room_for(group)) continue;
    const double own = sum_s(transfer, group, true);
    least = std::min(least.value_or(own), own);
  }
  return least.value_or(0);
}

// `scattered`: each may get a part of a sum alone.
double Bounds::sum_s(const Transfer& transfer, const ReplicaGroup& group, bool scattered) {
  const auto price = [&](TransferKind kind) {
    return group_price(kind, element_of(transfer), group, element_count(transfer)).seconds;
  };
  const double all = price(TransferKind::AllReduce);
  switch (transfer.kind) {
    case TransferKind::AllReduce: {
      const double parts = price(TransferKind::ReduceScatter);
      return std::min(all, scattered ? parts : parts + price(TransferKind::AllGather));
    }
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
      return std::min(all / 2, price(transfer.kind));
    default:
      return 0;
  }
}

// Where parts of a sequence go around one ring, of which each has some devices that share heads
// out.
double Bounds::context_s(Transfer transfer, const PlanChoices& choices) const {
  const ContextDegrees degrees = context_degrees(choices);
  if (!transfer_alike(choices) || choices.place.empty() || degrees.rings > 1) return 0;
  const std::int64_t inside = key_of(choices).cp_inside;
  if (inside % degrees.heads != 0 && degrees.heads % inside != 0) return 0;
  const auto price = [&](TransferKind kind) {
    transfer.kind = kind;
    return setting_.costs->transfer(transfer, batch_.precision).time.value();
  };
  if (is_pair(transfer.kind)) {
    // In any place devices stand in their order: where the other one is in the ring.
    const DeviceId other = std::max(transfer.group.front(), transfer.group.back());
    const auto step = static_cast<std::int64_t>(other.index()) / (choices.tp * degrees.heads);
    const bool leaves = step >= std::max<std::int64_t>(1, inside / degrees.heads);
    const ReplicaGroup pair{2, leaves ? 1 : 2};
    if (!has_room_for(pair)) return 0;
    transfer.group = devices_of(pair);
    return price(transfer.kind);
  }
  const ReplicaGroup sharing{degrees.heads, std::min(inside, degrees.heads)};
  const bool all = static_cast<std::int64_t>(transfer.group.size()) == degrees.heads;
  if (transfer.kind != TransferKind::AllToAll || !all || !has_room_for(sharing)) return 0;
  transfer.group = devices_of(sharing);
  const double exchange = price(TransferKind::AllToAll);
  // Or everything goes to all of them.
  const std::int64_t elements = element_count(transfer) * degrees.heads;
  const BufferElement element = element_of(transfer);
  transfer = {
      .kind = TransferKind::AllGather, .purpose = transfer.purpose, .group = transfer.group};
  cut_among(transfer, elements, element);
  return std::min(exchange, price(TransferKind::AllGather));
}

double Bounds::transfer_s(const Transfer& transfer, const PlanChoices& choices,
                          const std::optional<ReplicaGroup>& tensor) {
  if (transfer.rows) return exchange_s(transfer, choices);
  if (choices.tensor != TensorForm::OneD) return square_s(transfer, choices);
  return transfer.purpose == Purpose::Tensor ? tensor_s(transfer, choices, tensor)
                                             : context_s(transfer, choices);
}

Bounds::KernelTimes Bounds::newly_timed(const std::vector<BlockTask>& tasks,
                                        std::int64_t samples) const {
  KernelTimes times{.of_tasks = std::vector<std::optional<double>>(tasks.size()), .largest = {}};
  std::map<const SampledWork*, double> known;  // layers of other kinds have some kernels alike
  Kernel kernel;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto* one = std::get_if<Kernel>(&tasks[t].work->one);
    if (!one) continue;
    const auto [entry, added] = known.try_emplace(tasks[t].work.get());
    if (added) {
      grow(kernel, *one, std::get<Kernel>(tasks[t].work->two), samples);
      times.largest = std::max(times.largest, used_by(tasks[t], kernel, samples, batch_.precision));
      entry->second = kernel_s(kernel);
    }
    times.of_tasks[t] = entry->second;
  }
  return times;
}

const Bounds::SampleSeconds& Bounds::divided_sample(const PlanChoices& choices) {
  BlocksKey key{key_of(choices), choices.microbatch};
  key.first.recompute = {};
  const auto [entry, added] = divided_.try_emplace(std::move(key));
  if (!added) return entry->second;
  PlanChoices any_place = choices;
  any_place.place.clear();
  any_place.recompute = {};
  const auto known_tasks = tasks_of(any_place);
  const std::vector<BlockTask>& tasks = *known_tasks;
  const std::int64_t samples = choices.microbatch / tensor_mesh(choices).batch_parts;
  const auto kernels = kernel_times_.get(
      {key_of(any_place), choices.microbatch}, [&] { return newly_timed(tasks, samples); },
      [](const KernelTimes& times) { return times.of_tasks.size(); });
  std::vector<std::optional<double>> seconds = kernels->of_tasks;
  const auto tensor = tensor_group(choices);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const SampledWork& work = *tasks[t].work;
    const auto* moved = std::get_if<Transfer>(&work.one);
    if (!moved) continue;
    const Transfer whole = grown(*moved, std::get<Transfer>(work.two), samples);
    seconds[t] = transfer_s(whole, choices, tensor);
  }
  entry->second = sample_of(tasks, seconds, choices.microbatch);
  entry->second.largest = kernels->largest;
  return entry->second;
}

Seconds Bounds::of_division(const PlanChoices& choices) {
  return with_sample(divided_sample(choices), choices);
}

}  // namespace meshwright
