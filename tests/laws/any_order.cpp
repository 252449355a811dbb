#include "tests/laws/any_order.h"

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>

#include "simulator/engine/meetings.h"

namespace meshwright {
namespace {

// Runs tasks one at a time, whichever may come next, and notes the order on each device.
class RandomRun {
 public:
  RandomRun(const std::vector<Program>& programs, std::uint32_t seed)
      : programs_(programs), generator_(seed), meetings_(find_meetings(programs)) {
    for (const Program& program : programs) {
      done_.emplace_back(program.tasks.size(), false);
      order_.emplace_back();
      std::vector<std::vector<std::uint32_t>> lanes(program.lanes.size());
      std::vector<std::uint32_t> transfers;
      std::uint32_t transfer = 0;
      for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
        lanes[program.tasks[t].lane.index()].push_back(t);
        transfers.push_back(transfer);
        if (program.tasks[t].kind == TaskKind::Transfer) ++transfer;
      }
      lanes_.push_back(std::move(lanes));
      next_.emplace_back(program.lanes.size(), 0);
      transfer_of_.push_back(std::move(transfers));
    }
  }

  // Of each program its tasks in their order, with when they came.
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> run() {
    for (std::int64_t time = 0;; ++time) {
      std::vector<std::pair<std::size_t, std::uint32_t>> ready;
      std::map<std::uint32_t, std::vector<std::pair<std::size_t, std::uint32_t>>> meeting;
      for (std::size_t p = 0; p < programs_.size(); ++p) {
        for (std::size_t lane = 0; lane < lanes_[p].size(); ++lane)
          collect(p, lane, ready, meeting);
      }
      std::vector<std::vector<std::pair<std::size_t, std::uint32_t>>> choices;
      for (const auto& task : ready) choices.push_back({task});
      for (const auto& [id, members] : meeting) {
        if (members.size() == meetings_.members[id]) choices.push_back(members);
      }
      if (choices.empty()) break;
      for (const auto& [p, t] : choices[generator_() % choices.size()]) finish(p, t, time);
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (order_[p].size() != programs_[p].tasks.size()) throw std::logic_error("no order is left");
    }
    return std::move(order_);
  }

 private:
  using Tasks = std::vector<std::pair<std::size_t, std::uint32_t>>;

  void collect(std::size_t p, std::size_t lane, Tasks& ready,
               std::map<std::uint32_t, Tasks>& meeting) const {
    if (next_[p][lane] == lanes_[p][lane].size()) return;
    const std::uint32_t t = lanes_[p][lane][next_[p][lane]];
    const Task& task = programs_[p].tasks[t];
    for (const TaskId wait : programs_[p].waits_of(task)) {
      if (!done_[p][wait.index()]) return;
    }
    if (task.kind != TaskKind::Transfer) {
      ready.emplace_back(p, t);
    } else {
      meeting[meetings_.of_program[p][transfer_of_[p][t]]].emplace_back(p, t);
    }
  }

  void finish(std::size_t p, std::uint32_t t, std::int64_t time) {
    done_[p][t] = true;
    order_[p].emplace_back(t, time);
    ++next_[p][programs_[p].tasks[t].lane.index()];
  }

  const std::vector<Program>& programs_;
  std::mt19937 generator_;
  const Meetings meetings_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> order_;
  std::vector<std::vector<std::vector<std::uint32_t>>> lanes_;  // of program and lane: tasks
  std::vector<std::vector<std::size_t>> next_;                  // of these
  std::vector<std::vector<std::uint32_t>> transfer_of_;         // transfers before each task
};

}  // namespace

std::vector<Program> in_any_order(const std::vector<Program>& programs, std::uint32_t seed) {
  const auto orders = RandomRun(programs, seed).run();
  std::vector<Program> result = programs;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    std::vector<TaskId> moved(programs[p].tasks.size());
    for (std::uint32_t i = 0; i < orders[p].size(); ++i) {
      const auto& [task, time] = orders[p][i];
      result[p].tasks[i] = programs[p].tasks[task];
      result[p].tasks[i].key = {.time = time};
      moved[task] = TaskId(i);
    }
    for (TaskId& wait : result[p].waits) wait = moved[wait.index()];
  }
  return result;
}

}  // namespace meshwright
