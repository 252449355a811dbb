#include "simulator/engine/carried_waits.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "simulator/program/operand_use.h"

namespace meshwright {
namespace {

struct Use {
  std::uint32_t task = 0;
  bool writes = false;
};

// Only persistent buffers carry anything from step to step.
std::vector<std::vector<Use>> uses_of_persistent(const Program& program) {
  std::vector<std::vector<Use>> uses(program.buffers.size());
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    const auto operands = program.operands_of(task);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const std::size_t buffer = operands[o].index();
      if (!program.buffers[buffer].persistent) continue;
      uses[buffer].push_back({t, writes_operand(program, task, o)});
    }
  }
  return uses;
}

class CarriedFinder {
 public:
  explicit CarriedFinder(const Program& program) : program_(program) {}

  CarriedWaits find() {
    for (const auto& uses : uses_of_persistent(program_)) add_buffer(uses);
    std::ranges::sort(pairs_);
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
    CarriedWaits found;
    auto pair = pairs_.begin();
    for (std::uint32_t t = 0; t < program_.tasks.size(); ++t) {
      found.first.push_back(static_cast<std::uint32_t>(found.waits.size()));
      for (; pair != pairs_.end() && pair->first == t; ++pair) {
        found.waits.emplace_back(pair->second);
      }
    }
    found.first.push_back(static_cast<std::uint32_t>(found.waits.size()));
    return found;
  }

 private:
  LaneId lane(std::uint32_t task) const { return program_.tasks[task].lane; }

  void add_buffer(const std::vector<Use>& uses) {
    const auto first_write = std::ranges::find(uses, true, &Use::writes);
    if (first_write == uses.end()) return;  // never changes: nobody waits for readers
    const auto last_write =
        std::find_if(uses.rbegin(), uses.rend(), [](const Use& use) { return use.writes; });
    std::vector<LaneId> seen;
    for (auto use = uses.begin(); use <= first_write; ++use) {
      if (std::ranges::find(seen, lane(use->task)) != seen.end()) continue;
      seen.push_back(lane(use->task));
      add(use->task, last_write->task);
    }
    for (auto use = last_write.base(); use != uses.end(); ++use) add(first_write->task, use->task);
  }

  void add(std::uint32_t task, std::uint32_t before) {
    if (lane(task) != lane(before)) pairs_.emplace_back(task, before);
  }

  const Program& program_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
};

}  // namespace

CarriedWaits carried_waits(const Program& program) { return CarriedFinder(program).find(); }

}  // namespace meshwright
