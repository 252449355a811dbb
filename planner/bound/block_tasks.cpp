#include "planner/bound/block_tasks.h"

#include <algorithm>
#include <map>
#include <optional>

namespace meshwright {
namespace {

std::variant<std::monostate, Kernel, Transfer> work_of(const FragmentTask& task) {
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

}  // namespace

std::vector<BlockTask> block_tasks(const LoweredBlocks& blocks, const Model& few) {
  const Program program =
      program_of(blocks.one, blocks.plan, blocks.plan.slots.front().mesh.devices().front());
  const auto ranges = block_ops(few);
  std::vector<BlockTask> tasks;
  std::map<std::size_t, std::size_t> numbers;  // in the list, by task of the program
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
  for (std::size_t t = 0; t < turn; ++t) {
    add(t, blocks.one.forward[t], two.forward[t], true);
  }
  for (std::size_t t = 0; t < blocks.one.backward.size(); ++t) {
    add(turn + t, blocks.one.backward[t], two.backward[t], false);
  }
  return tasks;
}

}  // namespace meshwright
