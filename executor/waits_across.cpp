#include "executor/waits_across.h"

#include <algorithm>
#include <array>
#include <map>

namespace meshwright {
namespace {

using LastUse = std::array<std::optional<std::size_t>, 2>;  // by side, the last task so far

// Which task last used each part of a memory. Parts are kept by where they end.
class MemoryUses {
 public:
  // The last task of a side that used anything between two places.
  std::optional<std::size_t> last(std::int64_t start, std::int64_t end, bool side) const {
    std::optional<std::size_t> found;
    for (auto part = parts_.upper_bound(start); part != parts_.end(); ++part) {
      if (part->second.start >= end) break;
      found = std::max(found, part->second.uses[side]);
    }
    return found;
  }

  void use(std::int64_t start, std::int64_t end, bool side, std::size_t task) {
    split(start);
    split(end);
    std::int64_t at = start;
    for (auto part = parts_.upper_bound(start); at < end; ++part) {
      // What nobody has used yet.
      if (part == parts_.end() || part->second.start > at) {
        const std::int64_t free_end =
            part == parts_.end() ? end : std::min(end, part->second.start);
        part = parts_.emplace(free_end, Part{at, {}}).first;
      }
      part->second.uses[side] = task;
      at = part->first;
    }
  }

 private:
  struct Part {
    std::int64_t start = 0;
    LastUse uses;
  };

  void split(std::int64_t place) {
    const auto part = parts_.upper_bound(place);
    if (part == parts_.end() || part->second.start >= place) return;
    parts_.emplace(place, Part{part->second.start, part->second.uses});
    part->second.start = place;
  }

  std::map<std::int64_t, Part> parts_;  // by end
};

}  // namespace

std::vector<std::optional<std::size_t>> waits_across(const Program& program, const Arena& device,
                                                     const Arena& host) {
  std::vector<std::optional<std::size_t>> waits(program.tasks.size());
  std::vector<bool> used(program.buffers.size(), false);
  MemoryUses on_device, on_host;
  LastUse so_far;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    const bool side = runs_beside(task);
    for (const TaskId wait : program.waits_of(task)) {
      if (runs_beside(program.tasks[wait.index()]) != side) {
        waits[t] = std::max(waits[t], std::optional(wait.index()));
      }
    }
    if (task.waits_for_compute) waits[t] = std::max(waits[t], so_far[!side]);
    for (const BufferId id : program.operands_of(task)) {
      const Buffer& buffer = program.buffers[id.index()];
      const bool is_on_host = buffer.space == Space::Host;
      MemoryUses& memory = is_on_host ? on_host : on_device;
      const std::int64_t start = (is_on_host ? host : device).offsets[id.index()]->value();
      const std::int64_t end = start + arena_bytes(buffer, program.precision).value();
      if (!used[id.index()]) waits[t] = std::max(waits[t], memory.last(start, end, !side));
      used[id.index()] = true;
      memory.use(start, end, side, t);
    }
    so_far[side] = t;
  }
  return waits;
}

}  // namespace meshwright
