#include "tests/standin/unordered_uses.h"

#include <algorithm>
#include <map>

#include "simulator/program/operand_use.h"

namespace meshwright::standin {
namespace {

// Of each lane the last task that is over; none: no task.
using Clock = std::vector<std::optional<std::size_t>>;

void join(Clock& into, const Clock& other) {
  for (std::size_t lane = 0; lane < into.size(); ++lane)
    into[lane] = std::max(into[lane], other[lane]);
}

// Where memory is laid out in lines, by line and lane: who read or wrote it last.
class LineUses {
 public:
  // The last task of another lane that `clock` does not have over, and that must be.
  std::optional<std::size_t> use(std::size_t line, std::size_t lane, std::size_t task, bool writes,
                                 const Clock& clock) {
    std::optional<std::size_t> unordered;
    auto& uses = lines_[line];
    for (const auto& [other, last] : uses) {
      if (other.first == lane || (!writes && !other.second)) continue;
      const auto& over = clock[other.first];
      if (!over || *over < last) unordered = last;
    }
    uses[{lane, writes}] = task;
    return unordered;
  }

 private:
  std::map<std::size_t, std::map<std::pair<std::size_t, bool>, std::size_t>> lines_;
};

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> unordered_uses(const Program& program,
                                                                  const Arena& device,
                                                                  const Arena& host,
                                                                  const TaskWaits& waits) {
  const std::size_t lanes = program.lanes.size();
  const auto line_bytes = static_cast<std::size_t>(kArenaAlignment.value());
  std::vector<Clock> over(program.tasks.size(), Clock(lanes));  // when a task is over
  std::vector<Clock> clocks(lanes, Clock(lanes));
  LineUses on_device, on_host;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    Clock& clock = clocks[task.lane.index()];
    for (const std::size_t wait : waits[t]) join(clock, over[wait]);
    const auto buffers = program.operands_of(task);
    for (std::size_t o = 0; o < buffers.size(); ++o) {
      const Buffer& buffer = program.buffers[buffers[o].index()];
      const bool is_host = buffer.space == Space::Host;
      const auto start =
          static_cast<std::size_t>((is_host ? host : device).offsets[buffers[o].index()]->value());
      const auto end =
          start + static_cast<std::size_t>(arena_bytes(buffer, program.precision).value());
      const bool writes = writes_operand(program, task, o);
      for (std::size_t line = start / line_bytes; line < (end + line_bytes - 1) / line_bytes;
           ++line) {
        const auto other =
            (is_host ? on_host : on_device).use(line, task.lane.index(), t, writes, clock);
        if (other) return std::pair(*other, t);
      }
    }
    clock[task.lane.index()] = t;
    over[t] = clock;
  }
  return {};
}

}  // namespace meshwright::standin
