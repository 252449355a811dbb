#include "simulator/program/check_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace meshwright {
namespace {

// Runs the lists side by side: a collective waits for all of its group, a receive for its send.
class JointRun {
 public:
  JointRun(std::span<const Program> programs, std::vector<std::string>& problems)
      : programs_(programs), problems_(problems), next_(programs.size(), 0) {
    for (std::size_t p = 0; p < programs.size(); ++p) index_[programs[p].device] = p;
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t p = 0; p < programs_.size(); ++p) {
        while (next_[p] < programs_[p].tasks.size() && step(p)) moved = true;
      }
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (next_[p] < programs_[p].tasks.size()) {
        problems_.push_back(task_name(programs_[p], next_[p]) + ": waits for ever" + reason(p));
      }
    }
    for (const auto& [group, sends] : sent_) {
      if (!sends.empty()) {
        problems_.push_back(fmt::format("device {} sends {} more than device {} receives",
                                        group[0].index(), sends.size(), group[1].index()));
      }
    }
  }

 private:
  bool step(std::size_t p) {
    const Program& program = programs_[p];
    const Task& task = program.tasks[next_[p]];
    if (task.kind != TaskKind::Transfer) return ++next_[p], true;
    const Transfer& transfer = program.transfer(task);
    switch (transfer.kind) {
      case TransferKind::Send:
        sent_[transfer.group].push_back(&transfer);
        return ++next_[p], true;
      case TransferKind::Receive:
        return receive(p, transfer);
      default:
        return meet(p, transfer);
    }
  }

  bool receive(std::size_t p, const Transfer& transfer) {
    auto& sends = sent_[transfer.group];
    if (sends.empty()) return false;
    const Transfer& sent = *sends.front();
    if (!is_same_work(sent, transfer)) {
      problems_.push_back(fmt::format(
          "{}: receives {} elements, device {} sends {}{}", task_name(programs_[p], next_[p]),
          element_count(transfer), transfer.group[0].index(), element_count(sent),
          element_count(sent) == element_count(transfer) ? " of another shape or kind" : ""));
    }
    sends.erase(sends.begin());
    return ++next_[p], true;
  }

  // Why nobody comes, where that is plain: another device has the same group in another order.
  std::string reason(std::size_t p) const {
    const auto group_of = [&](std::size_t program) {
      const Program& entry = programs_[program];
      if (next_[program] >= entry.tasks.size()) return std::vector<DeviceId>();
      const Task& task = entry.tasks[next_[program]];
      return task.kind == TaskKind::Transfer ? entry.transfer(task).group : std::vector<DeviceId>();
    };
    const auto sorted = [](std::vector<DeviceId> group) {
      std::ranges::sort(group);
      return group;
    };
    const std::vector<DeviceId> mine = group_of(p), members = sorted(mine);
    for (std::size_t other = 0; other < programs_.size(); ++other) {
      const std::vector<DeviceId> theirs = group_of(other);
      if (theirs != mine && sorted(theirs) == members) {
        return fmt::format(": device {} has its group in another order",
                           programs_[other].device.index());
      }
    }
    return "";
  }

  // Goes on when every member of the group stands before a collective of this group.
  bool meet(std::size_t p, const Transfer& transfer) {
    std::vector<std::size_t> members;
    for (const DeviceId device : transfer.group) {
      const auto found = index_.find(device);
      if (found == index_.end()) {
        problems_.push_back(fmt::format("{}: device {} has no program",
                                        task_name(programs_[p], next_[p]), device.index()));
        return ++next_[p], true;
      }
      const Program& other = programs_[found->second];
      if (next_[found->second] >= other.tasks.size()) return false;
      const Task& task = other.tasks[next_[found->second]];
      if (task.kind != TaskKind::Transfer || other.transfer(task).group != transfer.group ||
          is_pair(other.transfer(task).kind)) {
        return false;
      }
      members.push_back(found->second);
    }
    for (const std::size_t member : members) {
      const Program& other = programs_[member];
      const Transfer& theirs = other.transfer(other.tasks[next_[member]]);
      if (!is_same_work(theirs, transfer)) {
        problems_.push_back(fmt::format("{}: meets a different transfer of {}",
                                        task_name(programs_[p], next_[p]),
                                        task_name(other, next_[member])));
      }
    }
    for (const std::size_t member : members) ++next_[member];
    return true;
  }

  std::span<const Program> programs_;
  std::vector<std::string>& problems_;
  std::vector<std::size_t> next_;  // task of each program
  std::map<DeviceId, std::size_t> index_;
  std::map<std::vector<DeviceId>, std::vector<const Transfer*>> sent_;
};

}  // namespace

std::string task_name(const Program& program, std::size_t task) {
  const Task& entry = program.tasks[task];
  const std::string what = [&]() -> std::string {
    switch (entry.kind) {
      case TaskKind::Kernel:
        return fmt::format("{} {} {}", to_text(program.kernel(entry).kind),
                           to_text(program.kernel(entry).phase), program.kernel(entry).name);
      case TaskKind::Transfer:
        return std::string(to_text(program.transfer(entry).kind));
      case TaskKind::Copy:
        return fmt::format("copy {}", to_text(program.copy(entry).direction));
    }
    return "";
  }();
  return fmt::format("device {} task {} ({})", program.device.index(), task, what);
}

void check_together(std::span<const Program> programs, std::vector<std::string>& problems) {
  JointRun(programs, problems).run();
}

}  // namespace meshwright
