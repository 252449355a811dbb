#include "simulator/program/check_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/program/check_together.h"
#include "simulator/program/operand_use.h"

namespace meshwright {
namespace {

using Problems = std::vector<std::string>;

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
    check_phases();
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
    auto buffers = program_.operands_of(task);
    if (task.has_predicate) {
      if (!check_predicate(t, task, buffers)) return;
      buffers = buffers.first(buffers.size() - 1);
    }
    if (task.kind == TaskKind::Copy) return check_copy(t, program_.copy(task), buffers);
    for (const BufferId id : buffers) {
      const Buffer& buffer = program_.buffers[id.index()];
      if (buffer.space == Space::Host) add(t, "uses {}, which is on the host", buffer.name.text());
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
    for (std::size_t o = 0; o < operands.size(); ++o) check_operand(t, operands[o], buffers[o]);
    check_ranges(t, program_.kernel(task));
    check_counts(t, program_.kernel(task));
    check_place(t, program_.kernel(task));
  }

  // Others wait for a transfer, and memory is counted on for a copy: these are never left out.
  bool check_predicate(std::size_t t, const Task& task, std::span<const BufferId> buffers) {
    if (task.kind != TaskKind::Kernel || buffers.empty()) {
      add(t, "has a predicate, which only kernels have");
      return false;
    }
    const Buffer& flag = program_.buffers[buffers.back().index()];
    if (flag.element != BufferElement::Index || flag.count != 1 || flag.space != Space::Device) {
      add(t, "runs only if {} says so, which is not one index on the device", flag.name.text());
    }
    return true;
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

  // Rows from the start of their buffer, without gaps: any number of them that has room may come.
  void check_counts(std::size_t t, const Kernel& kernel) {
    const bool counts = kernel.counts && *kernel.counts < kernel.operands.size();
    if (counts && kernel.operands[*kernel.counts].element != BufferElement::Index) {
      add(t, "counts rows with what are no indices");
    }
    for (const Operand& operand : kernel.operands) {
      if (!operand.counted) continue;
      const bool in_rows = operand.offset == 0 && operand.sizes.size() == 2 &&
                           operand.strides == Extents{operand.sizes[1], 1};
      if (!counts || !in_rows) add(t, "has rows that nothing counts, or that are none");
    }
  }

  // A place is of the operands' own sizes, ascending inside the whole.
  void check_place(std::size_t t, const Kernel& kernel) {
    if (kernel.place.empty() || kernel.operands.empty()) return;
    const Extents sizes = placed_sizes(kernel);
    if (kernel.place.size() != sizes.size()) {
      add(t, "has a place of {} dimensions where {} are", kernel.place.size(), sizes.size());
      return;
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      std::int64_t end = 0;
      bool ascending = true;
      for (const ShardRange& range : kernel.place[d].ranges) {
        ascending &= range.start >= end && range.size >= 0;
        end = range.start + range.size;
      }
      if (size_of(kernel.place[d].ranges) != sizes[d] || !ascending || end > kernel.place[d].size) {
        add(t, "has {} of {} places along dimension {}, which do not fit its operand of {}",
            size_of(kernel.place[d].ranges), kernel.place[d].size, d, sizes[d]);
      }
    }
  }

  static Extents placed_sizes(const Kernel& kernel) {
    const auto& sizes = kernel.operands[0].sizes;
    // It has sums over sequences, of which its place says how much the loss counts.
    const bool summed = kernel.kind == KernelKind::Balance && kernel.phase == Phase::Forward;
    if (summed && kernel.place.size() == 2) return {sizes[0], size_of(kernel.place[1].ranges)};
    if (kernel.kind != KernelKind::Attention || sizes.size() != 4) return sizes;
    return {sizes[0], sizes[2], sizes[1], kernel.operands[1].sizes[1]};
  }

  void check_operand(std::size_t t, const Operand& operand, BufferId buffer) {
    const Buffer& entry = program_.buffers[buffer.index()];
    const auto [first, end] = reach_of(operand);
    if (first < 0) add(t, "reaches before {}", entry.name.text());
    if (end > entry.count) {
      add(t, "reaches element {} of {}, which has {}", end, entry.name.text(), entry.count);
    }
    if (operand.element != entry.element) {
      add(t, "takes {} for another kind of numbers", entry.name.text());
    }
  }

  // The first element of the buffer that an operand touches, and the one behind the last.
  static std::pair<std::int64_t, std::int64_t> reach_of(const Operand& operand) {
    std::int64_t first = operand.offset, end = operand.offset + 1;
    for (std::size_t d = 0; d < operand.sizes.size(); ++d) {
      const std::int64_t last = (operand.sizes[d] - 1) * operand.strides[d];
      if (operand.sizes[d] == 0) return {operand.offset, operand.offset};
      (last < 0 ? first : end) += last;
    }
    return {first, end};
  }

  void check_transfer(std::size_t t, const Transfer& transfer, std::span<const BufferId> buffers) {
    const std::size_t expected = is_pair(transfer.kind) ? 1 : transfer.rows ? 3 : 2;
    if (buffers.size() != expected) {
      add(t, "has {} buffers", buffers.size());
      return;
    }
    if (const auto fault = fault_of(transfer, program_.device)) {
      add(t, "cannot run: {}", *fault);
      return;
    }
    if (transfer.source) check_operand(t, *transfer.source, buffers.front());
    if (!transfer.target) return;
    if (transfer.rows) {
      check_operand(t, transfer.rows->counts, buffers.back());
      buffers = buffers.first(2);
    }
    check_operand(t, *transfer.target, buffers.back());
    for (std::size_t d = 0; d < transfer.target->sizes.size(); ++d) {
      if (transfer.target->sizes[d] > 1 && transfer.target->strides[d] == 0) {
        add(t, "writes elements of {} more than once",
            program_.buffers[buffers.back().index()].name.text());
      }
    }
    if (buffers.front() == buffers.back() && transfer.source && !can_share_buffer(transfer)) {
      add(t, "reads and writes {} at places that overlap",
          program_.buffers[buffers.back().index()].name.text());
    }
  }

  bool can_share_buffer(const Transfer& transfer) const {
    const auto source = reach_of(*transfer.source), target = reach_of(*transfer.target);
    if (source.second <= target.first || target.second <= source.first) return true;
    switch (transfer.kind) {
      case TransferKind::ReduceScatter:
        return is_own_part(transfer, *transfer.target, *transfer.source, transfer.source_cut);
      case TransferKind::AllGather:
        return is_own_part(transfer, *transfer.source, *transfer.target, transfer.target_cut);
      case TransferKind::AllToAll:
        return false;
      default:
        return *transfer.source == *transfer.target;
    }
  }

  bool is_own_part(const Transfer& transfer, const Operand& part, const Operand& whole,
                   const Cut& cut) const {
    const auto place = std::ranges::find(transfer.group, program_.device) - transfer.group.begin();
    const auto ranges =
        part_of(cut, whole.sizes[cut.dim], static_cast<std::size_t>(place), transfer.group.size());
    if (ranges.size() != 1) return ranges.empty();
    Operand own = whole;
    own.offset += ranges[0].start * whole.strides[cut.dim];
    own.sizes[cut.dim] = ranges[0].size;
    return part == own;
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
        add(t, "{} {}, which is not on the {}", o == 0 ? "reads" : "writes", buffer.name.text(),
            on_host ? "host" : "device");
      }
      if (buffer.count != copy.count || buffer.element != copy.element) {
        add(t, "copies {} elements, {} has {} or another kind of them", copy.count,
            buffer.name.text(), buffer.count);
      }
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
          add(t, "reads {} before anything has written it", program_.buffers[b].name.text());
        }
      }
      for (std::size_t o = 0; o < buffers.size(); ++o) {
        // What a task that may be left out writes must be there without it.
        const bool writes = writes_operand(program_, task, o) && !task.has_predicate;
        if (writes) is_written[buffers[o].index()] = true;
      }
    }
    const std::vector<bool> beside = written_beside(is_read);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!program_.buffers[b].persistent && !is_read[b] && !beside[b]) {
        problems_.push_back(fmt::format("device {}: nothing reads {}", program_.device.index(),
                                        program_.buffers[b].name.text()));
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
          add(t, "uses {} without waiting for task {}",
              program_.buffers[buffers[o].index()].name.text(), other);
        }
      }
      // Older uses are behind this write for everyone who waits for it.
      if (writes) before.clear();
    }
    for (const BufferId buffer : buffers) users[buffer.index()].push_back(t);
  }

  // What an op's kernels do: of an attention that merges blocks of keys, each with one of them.
  struct WorkPhase {
    KernelKind kind;
    Phase phase;
    std::vector<ShardRange> keys;
    friend auto operator<=>(const WorkPhase&, const WorkPhase&) = default;
  };

  static WorkPhase work_phase(const Kernel& kernel) {
    const bool placed = kernel.kind == KernelKind::Attention && kernel.place.size() == 4;
    return {kernel.kind, kernel.phase, placed ? kernel.place[3].ranges : std::vector<ShardRange>()};
  }

  void check_phases() {
    std::map<std::string, std::map<WorkPhase, std::multiset<std::int32_t>>> ops;
    std::set<std::int32_t> microbatches;
    for (const Task& task : program_.tasks) {
      if (task.kind != TaskKind::Kernel || !task.microbatch || task.recompute) continue;
      const Kernel& kernel = program_.kernel(task);
      ops[kernel.name][work_phase(kernel)].insert(*task.microbatch);
      microbatches.insert(*task.microbatch);
    }
    const std::multiset<std::int32_t> once(microbatches.begin(), microbatches.end());
    for (const auto& [name, phases] : ops) {
      for (const auto& [what, seen] : phases) {
        // Sums of gradients may take several kernels.
        if (what.kind == KernelKind::Sum || seen == once) continue;
        problems_.push_back(
            fmt::format("device {}: {} {} {} does not run exactly once for every micro-batch",
                        program_.device.index(), name, to_text(what.kind), to_text(what.phase)));
      }
    }
  }

  const Program& program_;
  Problems& problems_;
};

}  // namespace

std::vector<std::string> check_alone(const Program& program) {
  Problems problems;
  ProgramCheck(program, problems).run();
  return problems;
}

std::vector<std::string> check_programs(std::span<const Program> programs) {
  Problems problems;
  for (const Program& program : programs) {
    for (std::string& problem : check_alone(program)) problems.push_back(std::move(problem));
  }
  check_together(programs, problems);
  return problems;
}

}  // namespace meshwright
