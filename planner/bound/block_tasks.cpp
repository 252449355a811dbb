#include "planner/bound/block_tasks.h"

#include <algorithm>
#include <array>
#include <boost/functional/hash.hpp>
#include <map>
#include <optional>
#include <utility>

#include "planner/bound/stretch_play.h"

namespace meshwright {
namespace {

// Named alike for all repetitions of an op.
std::variant<std::monostate, Kernel, Transfer> work_of(const FragmentTask& task,
                                                       const PlannedGraph& planned) {
  // In another place, or with more samples, another way to a layout may be the cheapest.
  if (task.slices) return {};
  if (const auto* kernel = std::get_if<Kernel>(&task.work)) {
    Kernel own = *kernel;
    if (own.name == planned.graph.ops[task.op].name) own.name = planned.patterns[task.op];
    return own;
  }
  const auto* transfer = std::get_if<Transfer>(&task.work);
  if (transfer && (transfer->rows || transfer->purpose == Purpose::Tensor ||
                   transfer->purpose == Purpose::Context)) {
    return *transfer;
  }
  return {};
}

// Equal for equal works.
std::size_t likeness_of(const SampledWork& work) {
  std::size_t likeness = work.one.index();
  const auto add = [&](std::size_t number) { boost::hash_combine(likeness, number); };
  const auto add_sizes = [&](const Operand& operand) {
    for (const std::int64_t size : operand.sizes) add(static_cast<std::size_t>(size));
  };
  if (const auto* kernel = std::get_if<Kernel>(&work.one)) {
    add(static_cast<std::size_t>(kernel->kind));
    add(static_cast<std::size_t>(kernel->phase));
    std::ranges::for_each(kernel->operands, add_sizes);
  } else if (const auto* transfer = std::get_if<Transfer>(&work.one)) {
    add(static_cast<std::size_t>(transfer->kind));
    add(transfer->group.size());
    if (transfer->source) add_sizes(*transfer->source);
  }
  return likeness;
}

std::vector<BlockTask::Used> buffers_of(const FragmentTask& task, const Fragment& one,
                                        const Fragment& two, Precision precision) {
  std::vector<BlockTask::Used> used;
  if (!std::holds_alternative<Kernel>(task.work)) return used;
  const auto bytes = [&](const Fragment& fragment, FragmentBufferId id) {
    return expected_bytes_of(fragment.buffers[id.index()].buffer, precision);
  };
  for (std::size_t o = 0; o < task.operands.size(); ++o) {
    const FragmentBufferId id = task.operands[o];
    if (!std::holds_alternative<OfMicrobatch>(one.buffers[id.index()].holds)) continue;
    used.push_back({o, id.index(), bytes(one, id), bytes(two, id)});
  }
  return used;
}

// A layer's tasks in one direction, with what goes into them and out.
struct LayerTasks {
  Stretch stretch;
  Crossing crossing;
};

LayerTasks layer_tasks(const Program& program, const Stretch& direction,
                       const std::vector<FragmentTask>& tasks, const OpRange& ops) {
  const Stretch stretch = stretch_of(tasks, direction.first, ops);
  return {stretch, Crossing(program, direction, stretch)};
}

}  // namespace

std::shared_ptr<const SampledWork> SharedWorks::get(SampledWork work) {
  const std::size_t likeness = likeness_of(work);
  const auto [first, end] = known_.equal_range(likeness);
  for (auto entry = first; entry != end; ++entry) {
    auto known = entry->second.lock();
    if (known && *known == work) return known;
  }
  if (known_.size() >= many_) forget_unused();
  auto made = std::make_shared<const SampledWork>(std::move(work));
  known_.emplace(likeness, made);
  return made;
}

void SharedWorks::forget_unused() {
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  many_ = std::max(many_, 2 * known_.size());
}

std::vector<BlockTask> block_tasks(const LoweredBlocks& blocks, const Model& few,
                                   SharedWorks& works) {
  const PlannedGraph& planned = *blocks.planned.graph;
  const Fragment &one = blocks.fragment, two = lower_twice(blocks);
  const Program program =
      program_of(one, blocks.plan, blocks.plan.slots.front().mesh.devices().front());
  const auto ranges = block_ops(few);
  std::vector<BlockTask> tasks;
  std::map<std::size_t, std::size_t> numbers;  // in the list, by task of the program
  // By block, forward and backward: of layers.
  std::vector<std::array<std::optional<LayerTasks>, 2>> layers;
  const auto add = [&](std::size_t t, const FragmentTask& own, const FragmentTask& doubled,
                       bool forward) {
    const auto range = std::ranges::find_if(
        ranges, [&](const BlockOps& block) { return block.ops.contains(own.op); });
    if (range == ranges.end()) return;
    BlockTask task{.work = works.get({work_of(own, planned), work_of(doubled, planned)}),
                   .block = static_cast<std::size_t>(range - ranges.begin()),
                   .lane = program.tasks[t].lane.index(),
                   .forward = forward,
                   .buffers = buffers_of(own, one, two, blocks.plan.precision)};
    if (const auto& layer = layers[task.block][forward ? 0 : 1]) {
      task.receives = layer->stretch.contains(t) && layer->crossing.is_read_by(t);
      task.sends = layer->crossing.outgoing() == t;
    }
    for (const TaskId wait : program.waits_of(program.tasks[t])) {
      const auto known = numbers.find(wait.index());
      if (known == numbers.end()) continue;
      const BlockTask& other = tasks[known->second];
      if (other.block == task.block && other.forward == forward) {
        task.waits.push_back(known->second);
      }
    }
    numbers[t] = tasks.size();
    tasks.push_back(std::move(task));
  };
  const std::size_t turn = one.forward.size();
  for (const BlockOps& block : ranges) {
    auto& [ahead, back] = layers.emplace_back();
    if (!block.layer) continue;
    const Stretch forward{0, turn}, backward{turn, program.tasks.size()};
    ahead.emplace(layer_tasks(program, forward, one.forward, block.ops));
    back.emplace(layer_tasks(program, backward, one.backward, block.ops));
  }
  for (std::size_t t = 0; t < turn; ++t) {
    add(t, one.forward[t], two.forward[t], true);
  }
  for (std::size_t t = 0; t < one.backward.size(); ++t) {
    add(turn + t, one.backward[t], two.backward[t], false);
  }
  return tasks;
}

}  // namespace meshwright
