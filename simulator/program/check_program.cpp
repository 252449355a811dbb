#include "simulator/program/check_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/program/operand_use.h"

namespace meshwright {
namespace {

using Problems = std::vector<std::string>;

std::string task_name(const Program& program, std::size_t task) {
  const Task& entry = program.tasks[task];
  const std::string what = [&]() -> std::string {
    switch (entry.kind) {
      case TaskKind::Kernel:
        return fmt::format("{} {} {}", to_text(program.kernel(entry).kind),
                           to_text(program.kernel(entry).part), program.kernel(entry).name);
      case TaskKind::Transfer:
        return std::string(to_text(program.transfer(entry).kind));
      case TaskKind::Copy:
        return fmt::format("copy {}", to_text(program.copy(entry).direction));
    }
    return "";
  }();
  return fmt::format("device {} task {} ({})", program.device.index(), task, what);
}

// Checks of one program alone.
class ProgramCheck {
 public:
  ProgramCheck(const Program& program, Problems& problems)
      : program_(program), problems_(problems) {}

  void run() {
    check_order();
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) check_bounds(t);
    check_writers();
    check_waits();
    check_parts();
  }

 private:
  template <class... Arguments>
  void add(std::size_t task, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    problems_.push_back(task_name(program_, task) + ": " +
                        fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  void check_order() {
    for (std::size_t t = 1; t < program_.tasks.size(); ++t) {
      if (program_.tasks[t].key < program_.tasks[t - 1].key) {
        add(t, "stands after a task that comes later in the one order of all tasks");
      }
    }
  }

  void check_bounds(std::size_t t) {
    const Task& task = program_.tasks[t];
    const auto buffers = program_.operands_of(task);
    if (task.kind == TaskKind::Copy) return check_copy(t, program_.copy(task), buffers);
    for (const BufferId id : buffers) {
      const Buffer& buffer = program_.buffers[id.index()];
      if (buffer.space == Space::Host) add(t, "uses {}, which is on the host", buffer.name);
    }
    if (task.kind == TaskKind::Transfer) {
      const Transfer& transfer = program_.transfer(task);
      check_transfer(t, transfer, buffers);
      return;
    }
    const auto& operands = program_.kernel(task).operands;
    if (operands.size() != buffers.size()) {
      add(t, "has {} operands and {} buffers", operands.size(), buffers.size());
      return;
    }
    for (std::size_t o = 0; o < operands.size(); ++o) {
      std::int64_t end = operands[o].offset + 1;
      for (std::size_t d = 0; d < operands[o].sizes.size(); ++d) {
        end += (operands[o].sizes[d] - 1) * operands[o].strides[d];
      }
      check_end(t, buffers[o], end);
      if (operands[o].element != program_.buffers[buffers[o].index()].element) {
        add(t, "takes {} for another kind of numbers", program_.buffers[buffers[o].index()].name);
      }
    }
    check_ranges(t, program_.kernel(task));
  }

  void check_ranges(std::size_t t, const Kernel& kernel) {
    for (const OperandRange& range : kernel.ranges) {
      if (range.operand >= kernel.operands.size() || range.first < 0 ||
          range.first + range.count > element_count(kernel.operands[range.operand])) {
        add(t, "works on elements {}+{} of operand {}, which are not there", range.first,
            range.count, range.operand);
      }
    }
  }

  void check_transfer(std::size_t t, const Transfer& transfer, std::span<const BufferId> buffers) {
    if (buffers.size() != (transfer.blocks ? 2 : 1)) {
      add(t, "has {} buffers", buffers.size());
      return;
    }
    const auto members = static_cast<std::int64_t>(transfer.group.size());
    const bool reads_own = transfer.blocks && transfer.kind == TransferKind::AllGather;
    check_end(t, buffers[reads_own ? 1 : 0], transfer.offset + transfer.count);
    if (!transfer.blocks) return;
    check_end(t, buffers[reads_own ? 0 : 1], transfer.count / members);
    if (transfer.count % (members * *transfer.blocks) != 0) {
      add(t, "has {} blocks of unequal parts", *transfer.blocks);
    }
  }

  void check_copy(std::size_t t, const HostCopy& copy, std::span<const BufferId> buffers) {
    if (buffers.size() != 2) {
      add(t, "has {} buffers", buffers.size());
      return;
    }
    const bool out = copy.direction == CopyDirection::ToHost;
    for (std::size_t o = 0; o < 2; ++o) {
      const Buffer& buffer = program_.buffers[buffers[o].index()];
      const bool on_host = (o == 1) == out;
      if ((buffer.space == Space::Host) != on_host) {
        add(t, "{} {}, which is not on the {}", o == 0 ? "reads" : "writes", buffer.name,
            on_host ? "host" : "device");
      }
      if (buffer.count != copy.count || buffer.element != copy.element) {
        add(t, "copies {} elements, {} has {} or another kind of them", copy.count, buffer.name,
            buffer.count);
      }
    }
  }

  void check_end(std::size_t t, BufferId buffer, std::int64_t end) {
    const Buffer& entry = program_.buffers[buffer.index()];
    if (end > entry.count) {
      add(t, "reaches element {} of {}, which has {}", end, entry.name, entry.count);
    }
  }

  void check_writers() {
    std::vector<bool> is_written(program_.buffers.size()), is_read(program_.buffers.size());
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      const auto buffers = program_.operands_of(task);
      for (std::size_t o = 0; o < buffers.size(); ++o) {
        const std::size_t b = buffers[o].index();
        if (!reads_operand(program_, task, o)) continue;
        is_read[b] = true;
        if (!is_written[b] && !program_.buffers[b].persistent) {
          add(t, "reads {} before anything has written it", program_.buffers[b].name);
        }
      }
      for (std::size_t o = 0; o < buffers.size(); ++o) {
        if (writes_operand(program_, task, o)) is_written[buffers[o].index()] = true;
      }
    }
    const std::vector<bool> beside = written_beside(is_read);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!program_.buffers[b].persistent && !is_read[b] && !beside[b]) {
        problems_.push_back(fmt::format("device {}: nothing reads {}", program_.device.index(),
                                        program_.buffers[b].name));
      }
    }
  }

  // By buffer: whether a task that writes something of use writes it too, such as the statistics
  // of a normalization that no gradient goes back through. A plan may repeat more than is read.
  std::vector<bool> written_beside(const std::vector<bool>& is_read) const {
    std::vector<bool> beside(program_.buffers.size());
    for (const Task& task : program_.tasks) {
      const auto buffers = program_.operands_of(task);
      bool useful = task.recompute;
      for (std::size_t o = 0; o < buffers.size(); ++o) {
        const std::size_t b = buffers[o].index();
        useful |=
            writes_operand(program_, task, o) && (is_read[b] || program_.buffers[b].persistent);
      }
      for (const BufferId buffer : buffers) {
        if (useful) beside[buffer.index()] = true;
      }
    }
    return beside;
  }

  // What is known to be finished when a task starts: of each lane, how many of its tasks. A task
  // may rely on an earlier one of another lane only if this says so.
  void check_waits() {
    using Clock = std::vector<std::size_t>;  // by lane: first task not known to be finished
    std::vector<Clock> clocks;
    Clock nothing(program_.lanes.size(), 0);
    std::vector<Clock> lanes(program_.lanes.size(), nothing);
    std::vector<std::vector<std::size_t>> users(program_.buffers.size());
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      Clock clock = lanes[task.lane.index()];
      for (const TaskId wait : program_.waits_of(task)) {
        if (wait.index() >= t) {
          add(t, "waits for task {}, which does not stand before it", wait.index());
          continue;
        }
        merge(clock, clocks[wait.index()]);
      }
      check_hazards(t, clock, users);
      clock[task.lane.index()] = t + 1;
      lanes[task.lane.index()] = clock;
      clocks.push_back(std::move(clock));
    }
  }

  static void merge(std::vector<std::size_t>& clock, const std::vector<std::size_t>& other) {
    for (std::size_t lane = 0; lane < clock.size(); ++lane) {
      clock[lane] = std::max(clock[lane], other[lane]);
    }
  }

  void check_hazards(std::size_t t, const std::vector<std::size_t>& clock,
                     std::vector<std::vector<std::size_t>>& users) {
    const Task& task = program_.tasks[t];
    const auto buffers = program_.operands_of(task);
    for (std::size_t o = 0; o < buffers.size(); ++o) {
      auto& before = users[buffers[o].index()];
      const bool writes = writes_operand(program_, task, o);
      for (const std::size_t other : before) {
        const Task& earlier = program_.tasks[other];
        if (earlier.lane == task.lane || clock[earlier.lane.index()] > other) continue;
        if (writes || writes_buffer(program_, earlier, buffers[o])) {
          add(t, "uses {} without waiting for task {}", program_.buffers[buffers[o].index()].name,
              other);
        }
      }
      // Older uses are behind this write for everyone who waits for it.
      if (writes) before.clear();
    }
    for (const BufferId buffer : buffers) users[buffer.index()].push_back(t);
  }

  void check_parts() {
    std::map<std::string, std::map<std::pair<KernelKind, KernelPart>, std::multiset<std::int32_t>>>
        ops;
    std::set<std::int32_t> microbatches;
    for (const Task& task : program_.tasks) {
      if (task.kind != TaskKind::Kernel || !task.microbatch || task.recompute) continue;
      const Kernel& kernel = program_.kernel(task);
      ops[kernel.name][{kernel.kind, kernel.part}].insert(*task.microbatch);
      microbatches.insert(*task.microbatch);
    }
    const std::multiset<std::int32_t> once(microbatches.begin(), microbatches.end());
    for (const auto& [name, parts] : ops) {
      for (const auto& [what, seen] : parts) {
        // Sums of gradients may take several kernels.
        if (what.first == KernelKind::Sum || seen == once) continue;
        problems_.push_back(
            fmt::format("device {}: {} {} {} does not run exactly once for every micro-batch",
                        program_.device.index(), name, to_text(what.first), to_text(what.second)));
      }
    }
  }

  const Program& program_;
  Problems& problems_;
};

// Runs the lists side by side: a collective waits for all of its group, a receive for its send.
class JointRun {
 public:
  JointRun(std::span<const Program> programs, Problems& problems)
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
        problems_.push_back(task_name(programs_[p], next_[p]) + ": waits for ever");
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
    if (sends.front()->count != transfer.count || sends.front()->element != transfer.element) {
      problems_.push_back(fmt::format("{}: receives {} elements, device {} sends {}",
                                      task_name(programs_[p], next_[p]), transfer.count,
                                      transfer.group[0].index(), sends.front()->count));
    }
    sends.erase(sends.begin());
    return ++next_[p], true;
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
      if (theirs.kind != transfer.kind || theirs.count != transfer.count ||
          theirs.reduction != transfer.reduction || theirs.element != transfer.element ||
          theirs.blocks != transfer.blocks) {
        problems_.push_back(fmt::format("{}: meets a different transfer of {}",
                                        task_name(programs_[p], next_[p]),
                                        task_name(other, next_[member])));
      }
    }
    for (const std::size_t member : members) ++next_[member];
    return true;
  }

  std::span<const Program> programs_;
  Problems& problems_;
  std::vector<std::size_t> next_;  // task of each program
  std::map<DeviceId, std::size_t> index_;
  std::map<std::vector<DeviceId>, std::vector<const Transfer*>> sent_;
};

}  // namespace

std::vector<std::string> check_programs(std::span<const Program> programs) {
  Problems problems;
  for (const Program& program : programs) ProgramCheck(program, problems).run();
  JointRun(programs, problems).run();
  return problems;
}

}  // namespace meshwright
