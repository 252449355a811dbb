#include "simulator/lowering/recompute.h"

#include <algorithm>
#include <ranges>
#include <set>

namespace meshwright {
namespace {

// What an op passes on to other devices while it computes is needed if the op's results are.
bool is_passed_on(const FragmentTask& task) {
  const auto* transfer = std::get_if<Transfer>(&task.work);
  return transfer && is_pair(transfer->kind);
}

// Which tasks are needed, from the last to the first, so that what reads a result has been seen
// before what makes it. `rerun` has the ops of which some are, and gets those that are found.
std::vector<bool> needed_tasks(const std::vector<FragmentTask>& tasks, std::size_t buffers,
                               std::set<std::size_t>& rerun) {
  std::vector<bool> read(buffers, false);
  std::vector<bool> kept(tasks.size(), false);
  for (std::size_t t = tasks.size(); t-- > 0;) {
    const FragmentTask& task = tasks[t];
    bool needed = !task.recompute || task.needless;
    for (std::size_t o = 0; o < task.operands.size() && !needed; ++o) {
      needed = writes_operand(task, o) && read[task.operands[o].index()];
    }
    needed = needed || (is_passed_on(task) && rerun.contains(task.op));
    kept[t] = needed;
    if (!needed) continue;
    if (task.recompute) rerun.insert(task.op);
    for (const FragmentBufferId id : task.operands) read[id.index()] = true;
  }
  return kept;
}

void drop_tasks(std::vector<FragmentTask>& tasks, std::size_t buffers) {
  std::set<std::size_t> rerun;
  std::vector<bool> needed = needed_tasks(tasks, buffers, rerun);
  // An op may pass something on after its last result is made.
  const auto is_missed = [&](std::size_t t) {
    return !needed[t] && is_passed_on(tasks[t]) && rerun.contains(tasks[t].op);
  };
  while (std::ranges::any_of(std::views::iota(std::size_t{0}, tasks.size()), is_missed)) {
    needed = needed_tasks(tasks, buffers, rerun);
  }
  std::size_t kept = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (!needed[t]) continue;
    if (kept != t) tasks[kept] = std::move(tasks[t]);
    ++kept;
  }
  tasks.resize(kept);
}

void drop_buffers(Fragment& fragment) {
  std::vector<bool> used(fragment.buffers.size(), false);
  for (auto* tasks : {&fragment.forward, &fragment.backward}) {
    for (const FragmentTask& task : *tasks) {
      for (const FragmentBufferId id : task.operands) used[id.index()] = true;
    }
  }
  std::vector<FragmentBufferId> moved(fragment.buffers.size());
  std::vector<FragmentBuffer> buffers;
  for (std::size_t b = 0; b < used.size(); ++b) {
    moved[b] = FragmentBufferId(buffers.size());
    if (used[b]) buffers.push_back(std::move(fragment.buffers[b]));
  }
  fragment.buffers = std::move(buffers);
  for (auto* tasks : {&fragment.forward, &fragment.backward}) {
    for (FragmentTask& task : *tasks) {
      for (FragmentBufferId& id : task.operands) id = moved[id.index()];
    }
  }
}

}  // namespace

void drop_unread(Fragment& fragment) {
  drop_tasks(fragment.backward, fragment.buffers.size());
  drop_buffers(fragment);
}

}  // namespace meshwright
