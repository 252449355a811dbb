#include "planner/bound/block_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "planner/bound/stretch_play.h"

namespace meshwright {
namespace {

std::variant<std::monostate, Kernel, Transfer> work_of(const FragmentTask& task) {
  // In another place, or with more samples, another way to a layout may be the cheapest.
  if (task.slices) return {};
  if (const auto* kernel = std::get_if<Kernel>(&task.work)) return *kernel;
  const auto* transfer = std::get_if<Transfer>(&task.work);
  if (transfer && (transfer->rows || transfer->purpose == Purpose::Tensor ||
                   transfer->purpose == Purpose::Context)) {
    return *transfer;
  }
  return {};
}

std::vector<BlockTask::Used> buffers_of(const FragmentTask& task, const LoweredBlocks& blocks) {
  std::vector<BlockTask::Used> used;
  if (!std::holds_alternative<Kernel>(task.work)) return used;
  const auto bytes = [&](const Fragment& fragment, FragmentBufferId id) {
    return expected_bytes_of(fragment.buffers[id.index()].buffer, blocks.plan.precision);
  };
  for (std::size_t o = 0; o < task.operands.size(); ++o) {
    const FragmentBufferId id = task.operands[o];
    if (!std::holds_alternative<OfMicrobatch>(blocks.one.buffers[id.index()].holds)) continue;
    used.push_back({o, id.index(), bytes(blocks.one, id), bytes(blocks.two(), id)});
  }
  return used;
}

// Tasks of a direction between a layer's first and its last.
Stretch layer_stretch(const std::vector<FragmentTask>& tasks, std::size_t first_task,
                      const OpRange& ops) {
  const auto is_own = [&](const FragmentTask& task) { return ops.contains(task.op); };
  const auto first = std::ranges::find_if(tasks, is_own);
  const auto last = std::find_if(tasks.rbegin(), tasks.rend(), is_own);
  if (first == tasks.end()) return {first_task, first_task};
  return {first_task + static_cast<std::size_t>(first - tasks.begin()),
          first_task + static_cast<std::size_t>(tasks.rend() - last)};
}

// Tasks of the program that read what comes into a layer, and the one that sends.
struct Crossing {
  std::set<std::size_t> receives;
  std::optional<std::size_t> sends;
};

Crossing crossing_of(const Program& program, const Stretch& direction, const Stretch& layer) {
  Crossing crossing{.receives = {}, .sends = last_writer(program, direction, layer.end)};
  const auto incoming = last_writer(program, direction, layer.first);
  std::set<BufferId> comes;
  const auto each = [&](std::size_t t, const auto& see) {
    const auto operands = program.operands_of(program.tasks[t]);
    for (std::size_t o = 0; o < operands.size(); ++o) see(program.tasks[t], o, operands[o]);
  };
  if (incoming) {
    each(*incoming, [&](const Task& task, std::size_t o, BufferId id) {
      if (writes_operand(program, task, o)) comes.insert(id);
    });
  }
  for (std::size_t t = layer.first; t < layer.end; ++t) {
    each(t, [&](const Task& task, std::size_t o, BufferId id) {
      if (comes.contains(id) && reads_operand(program, task, o)) crossing.receives.insert(t);
    });
  }
  return crossing;
}

}  // namespace

std::vector<BlockTask> block_tasks(const LoweredBlocks& blocks, const Model& few) {
  const Program program =
      program_of(blocks.one, blocks.plan, blocks.plan.slots.front().mesh.devices().front());
  const auto ranges = block_ops(few);
  std::vector<BlockTask> tasks;
  std::map<std::size_t, std::size_t> numbers;            // in the list, by task of the program
  std::vector<std::pair<Crossing, Crossing>> crossings;  // by block, forward and backward
  const auto add = [&](std::size_t t, const FragmentTask& one, const FragmentTask& two,
                       bool forward) {
    const auto range = std::ranges::find_if(
        ranges, [&](const BlockOps& block) { return block.ops.contains(one.op); });
    if (range == ranges.end()) return;
    BlockTask task{.one = work_of(one),
                   .two = work_of(two),
                   .block = static_cast<std::size_t>(range - ranges.begin()),
                   .lane = program.tasks[t].lane.index(),
                   .forward = forward,
                   .buffers = buffers_of(one, blocks)};
    const auto& [ahead, back] = crossings[task.block];
    task.receives = (forward ? ahead : back).receives.contains(t);
    task.sends = (forward ? ahead : back).sends == t;
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
  const Fragment& two = blocks.two();
  const std::size_t turn = blocks.one.forward.size();
  for (const BlockOps& block : ranges) {
    auto& [ahead, back] = crossings.emplace_back();
    if (!block.layer) continue;
    const Stretch forward{0, turn}, backward{turn, program.tasks.size()};
    ahead = crossing_of(program, forward, layer_stretch(blocks.one.forward, 0, block.ops));
    back = crossing_of(program, backward, layer_stretch(blocks.one.backward, turn, block.ops));
  }
  for (std::size_t t = 0; t < turn; ++t) {
    add(t, blocks.one.forward[t], two.forward[t], true);
  }
  for (std::size_t t = 0; t < blocks.one.backward.size(); ++t) {
    add(turn + t, blocks.one.backward[t], two.backward[t], false);
  }
  return tasks;
}

}  // namespace meshwright
