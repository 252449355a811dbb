// Bounds of plans of which the division of work is known, and its place, before blocks are played.
#include <algorithm>
#include <map>

#include "planner/bound/grown_fragment.h"
#include "planner/bound/plan_bound.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

// Tasks of a block that follow each other, kernels in one lane and rows to their experts in
// another, each as soon as what it waits for is done.
struct BlockLanes {
  double computed = 0, exchanged = 0;
};

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

// Where the devices that have a share of the experts are not all alike, nothing is said.
double Bounds::exchange_s(Transfer transfer, const PlanChoices& choices) const {
  const std::int64_t sharing = replicas_sharing_experts(choices);
  if (!transfer_alike(choices) || choices.cp > 1) return 0;
  if (static_cast<std::int64_t>(transfer.group.size()) != sharing) return 0;
  const std::int64_t in_node = choices.place.empty() ? sharing : repeats_in_node(choices);
  if (in_node % sharing != 0 && sharing % in_node != 0) return 0;
  const ReplicaGroup group{sharing, std::min(in_node, sharing)};
  if (!has_room_for(group)) return 0;
  transfer.group = devices_of(group);
  return setting_.costs->transfer(transfer, batch_.precision).time.value();
}

const Bounds::SampleSeconds& Bounds::divided_sample(const PlanChoices& choices) {
  PlanChoices any_place = choices;
  any_place.place.clear();
  any_place.recompute = {};
  const std::int64_t inside =
      choices.ep > 1 ? std::min(repeats_in_node(choices), replicas_sharing_experts(choices)) : 0;
  const auto [entry, added] = divided_.try_emplace({key_of(any_place), inside, choices.microbatch});
  if (!added) return entry->second;
  const std::vector<BlockTask>& tasks = tasks_of(any_place);
  const std::int64_t samples = choices.microbatch / tensor_mesh(choices).batch_parts;
  std::vector<double> finish(tasks.size(), 0);
  std::vector<BlockLanes> lanes[2];
  for (auto& direction : lanes) direction.resize(setting_.model.blocks.size());
  Bytes largest;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const BlockTask& task = tasks[t];
    BlockLanes& own = lanes[task.forward ? 0 : 1][task.block];
    for (const std::size_t wait : task.waits) finish[t] = std::max(finish[t], finish[wait]);
    if (const auto* one = std::get_if<Kernel>(&task.one)) {
      const Kernel kernel = grown(*one, std::get<Kernel>(task.two), samples);
      largest = std::max(largest, used_by(task, kernel, samples, batch_.precision));
      own.computed = finish[t] = std::max(finish[t], own.computed) + kernel_s(kernel);
    } else if (const auto* rows = std::get_if<Transfer>(&task.one)) {
      const double seconds =
          exchange_s(grown(*rows, std::get<Transfer>(task.two), samples), choices);
      own.exchanged = finish[t] = std::max(finish[t], own.exchanged) + seconds;
    }
  }
  std::vector<double> blocks;
  for (std::size_t b = 0; b < lanes[0].size(); ++b) {
    blocks.push_back(lanes[0][b].computed + lanes[1][b].computed);
  }
  entry->second = sample_of(blocks, choices.microbatch);
  entry->second.largest = largest;
  return entry->second;
}

Seconds Bounds::of_division(const PlanChoices& choices) {
  return with_sample(divided_sample(choices), choices);
}

}  // namespace meshwright
