#include "executor/waits_across.h"

#include <algorithm>
#include <map>
#include <optional>

namespace meshwright {
namespace {

// By side, the last task so far; few sides use one place, so those that do not are left out.
class LastUses {
 public:
  void set(std::size_t side, std::size_t task) {
    for (auto& [known, last] : uses_) {
      if (known != side) continue;
      last = task;
      return;
    }
    uses_.emplace_back(side, task);
  }
  auto begin() const { return uses_.begin(); }
  auto end() const { return uses_.end(); }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> uses_;  // side, task
};

// Which task of each side last used each part of a memory. Parts are kept by where they end.
class MemoryUses {
 public:
  // Calls visit(side, task) for those that used anything between two places.
  template <class Visit>
  void for_each(std::int64_t start, std::int64_t end, Visit visit) const {
    for (auto part = parts_.upper_bound(start); part != parts_.end(); ++part) {
      if (part->second.start >= end) break;
      for (const auto& [side, task] : part->second.uses) visit(side, task);
    }
  }

  void use(std::int64_t start, std::int64_t end, std::size_t side, std::size_t task) {
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
      part->second.uses.set(side, task);
      at = part->first;
    }
  }

 private:
  struct Part {
    std::int64_t start = 0;
    LastUses uses;
  };

  void split(std::int64_t place) {
    const auto part = parts_.upper_bound(place);
    if (part == parts_.end() || part->second.start >= place) return;
    parts_.emplace(place, Part{part->second.start, part->second.uses});
    part->second.start = place;
  }

  std::map<std::int64_t, Part> parts_;  // by end
};

class WaitsAcross {
 public:
  WaitsAcross(const Program& program, const Arena& device, const Arena& host,
              const std::vector<std::size_t>& side_of)
      : program_(program),
        device_(device),
        host_(host),
        side_of_(side_of),
        used_(program.buffers.size(), false) {
    for (const std::size_t side : side_of) sides_ = std::max(sides_, side + 1);
    known_.assign(sides_, std::vector<std::optional<std::size_t>>(sides_));
    last_.resize(sides_);
  }

  std::vector<std::vector<std::size_t>> run() {
    std::vector<std::vector<std::size_t>> waits(program_.tasks.size());
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      side_ = side_of_[t];
      for (const TaskId wait : program_.waits_of(task)) {
        need(side_of_[wait.index()], wait.index());
      }
      if (task.waits_for_compute && last_[0]) need(0, *last_[0]);
      for (const BufferId id : program_.operands_of(task)) use(id, t);
      waits[t] = take_needed();
      last_[side_] = t;
    }
    return waits;
  }

 private:
  void need(std::size_t side, std::size_t task) {
    if (side == side_) return;
    const auto known = std::ranges::find(needed_, side, [](const auto& n) { return n.first; });
    if (known == needed_.end()) {
      needed_.emplace_back(side, task);
    } else {
      known->second = std::max(known->second, task);
    }
  }

  void use(BufferId id, std::size_t task) {
    const Buffer& buffer = program_.buffers[id.index()];
    const bool on_host = buffer.space == Space::Host;
    MemoryUses& memory = on_host ? on_host_ : on_device_;
    const std::int64_t start = (on_host ? host_ : device_).offsets[id.index()]->value();
    const std::int64_t end = start + arena_bytes(buffer, program_.precision).value();
    if (!used_[id.index()]) {
      memory.for_each(start, end, [&](std::size_t side, std::size_t last) { need(side, last); });
    }
    used_[id.index()] = true;
    memory.use(start, end, side_, task);
  }

  std::vector<std::size_t> take_needed() {
    std::vector<std::size_t> waits;
    std::ranges::sort(needed_);
    for (const auto& [side, task] : needed_) {
      auto& known = known_[side_][side];
      if (known && *known >= task) continue;
      known = task;
      waits.push_back(task);
    }
    needed_.clear();
    return waits;
  }

  const Program& program_;
  const Arena &device_, &host_;
  const std::vector<std::size_t>& side_of_;
  std::size_t sides_ = 1;
  MemoryUses on_device_, on_host_;
  std::vector<bool> used_;  // by buffer
  std::vector<std::vector<std::optional<std::size_t>>>
      known_;                                                // by side: of each other, waited for
  std::vector<std::optional<std::size_t>> last_;             // by side
  std::size_t side_ = 0;                                     // of the task at hand
  std::vector<std::pair<std::size_t, std::size_t>> needed_;  // side, task
};

}  // namespace

std::vector<std::vector<std::size_t>> waits_across(const Program& program, const Arena& device,
                                                   const Arena& host,
                                                   const std::vector<std::size_t>& side_of) {
  return WaitsAcross(program, device, host, side_of).run();
}

std::vector<std::size_t> two_sides(const Program& program) {
  std::vector<std::size_t> sides;
  for (const Task& task : program.tasks) sides.push_back(runs_beside(task) ? 1 : 0);
  return sides;
}

std::vector<std::size_t> lane_sides(const Program& program) {
  std::vector<std::size_t> sides;
  for (const Task& task : program.tasks) sides.push_back(task.lane.index());
  return sides;
}

}  // namespace meshwright
