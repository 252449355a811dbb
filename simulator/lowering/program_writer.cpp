#include "simulator/lowering/program_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <span>

#include "costmodel/kernel/operand_use.h"

namespace meshwright {
namespace {

std::string lane_name(const Transfer& transfer) {
  if (transfer.kind == TransferKind::Send) return fmt::format("to {}", transfer.group[1].index());
  if (transfer.kind == TransferKind::Receive) {
    return fmt::format("from {}", transfer.group[0].index());
  }
  return fmt::format("group {}-{} of {}", transfer.group.front().index(),
                     transfer.group.back().index(), transfer.group.size());
}

struct OperandUse {
  bool reads = false, writes = false;
};

// What each task does with its operands, which many tasks have in common.
class OperandUses {
 public:
  explicit OperandUses(const Program& program) {
    for (const Kernel& kernel : program.kernels)
      add(TaskKind::Kernel, kernel, kernel.operands.size());
    // Rows that are counted have their counts besides.
    for (const Transfer& transfer : program.transfers) {
      add(TaskKind::Transfer, transfer, transfer.rows ? 3 : 2);
    }
    for (const HostCopy& copy : program.copies) add(TaskKind::Copy, copy, 2);
  }

  // One for each of so many operands.
  std::span<const OperandUse> of(const Task& task, std::size_t operands) const {
    const auto [first, count] = known_[static_cast<std::size_t>(task.kind)][task.what];
    assert(operands <= count);
    return {uses_.data() + first, operands};
  }

 private:
  template <class Work>
  void add(TaskKind kind, const Work& work, std::size_t operands) {
    known_[static_cast<std::size_t>(kind)].push_back({uses_.size(), operands});
    for (std::size_t o = 0; o < operands; ++o) {
      uses_.push_back({reads_operand(work, o), writes_operand(work, o)});
    }
  }

  struct Range {
    std::size_t first, count;
  };
  std::array<std::vector<Range>, kTaskKinds> known_;  // by kind and what it does: of `uses_`
  std::vector<OperandUse> uses_;
};

// The tasks each task must wait for: the last writer of what it uses and, before it writes, the
// readers. Of a lane only the last is kept, for its tasks run one after the other.
class WaitFinder {
 public:
  explicit WaitFinder(Program& program)
      : program_(program),
        operand_uses_(program),
        uses_(program.buffers.size()),
        last_(program.lanes.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      Task& task = program_.tasks[i];
      const auto operands = program_.operands_of(task);
      const std::size_t own = operands.size() - (task.has_predicate ? 1 : 0);
      const std::span<const OperandUse> use = operand_uses_.of(task, own);
      for (std::size_t o = 0; o < own; ++o) collect(operands[o], use[o].writes, task.lane);
      if (task.has_predicate) collect(operands.back(), false, task.lane);
      if (task.waits_for_compute && last_kernel_) add(*last_kernel_, task.lane);
      if (task.waits_for_copies) {
        if (copied_before_) add(*copied_before_, task.lane);
        copied_before_ = last_copy_;
      }
      if (task.lane == LaneId(0)) last_kernel_ = i;
      if (is_copy_to_host(task)) last_copy_ = i;
      for (std::size_t o = 0; o < own; ++o) note(i, operands[o], use[o]);
      if (task.has_predicate) note(i, operands.back(), {.reads = true});
      if (lanes_.size() > 1) std::sort(lanes_.begin(), lanes_.end());
      task.first_wait = static_cast<std::uint32_t>(program_.waits.size());
      task.wait_count = static_cast<std::uint32_t>(lanes_.size());
      for (const LaneId lane : lanes_) {
        program_.waits.push_back(TaskId(*last_[lane.index()]));
        last_[lane.index()].reset();
      }
      lanes_.clear();
    }
  }

 private:
  // Who used a buffer last, as far as later tasks must wait for it.
  struct BufferUse {
    std::optional<std::uint32_t> writer;
    std::optional<std::uint32_t> reader;  // since it was written: the last, into `readers_`
  };
  struct Reader {
    std::uint32_t task = 0;
    std::optional<std::uint32_t> before;
  };

  bool is_copy_to_host(const Task& task) const {
    return task.kind == TaskKind::Copy && program_.copy(task).direction == CopyDirection::ToHost;
  }

  void collect(BufferId buffer, bool written, LaneId own) {
    const BufferUse& use = uses_[buffer.index()];
    if (use.writer) add(*use.writer, own);
    if (!written) return;
    for (auto reader = use.reader; reader; reader = readers_[*reader].before) {
      add(readers_[*reader].task, own);
    }
  }

  void add(std::uint32_t index, LaneId own) {
    const LaneId lane = program_.tasks[index].lane;
    if (lane == own) return;
    auto& last = last_[lane.index()];
    if (!last) lanes_.push_back(lane);
    last = std::max(last.value_or(0), index);
  }

  void note(std::uint32_t index, BufferId buffer, OperandUse operand) {
    BufferUse& use = uses_[buffer.index()];
    if (operand.writes) use = {index, std::nullopt};
    if (!operand.reads) return;
    readers_.push_back({index, use.reader});
    use.reader = static_cast<std::uint32_t>(readers_.size() - 1);
  }

  Program& program_;
  const OperandUses operand_uses_;
  std::optional<std::uint32_t> last_kernel_;  // of the compute lane
  // To the host, and when the last forward began that waits for them.
  std::optional<std::uint32_t> last_copy_, copied_before_;
  std::vector<BufferUse> uses_;
  std::vector<Reader> readers_;
  // Of the task at hand.
  std::vector<LaneId> lanes_;                       // it waits for a task of
  std::vector<std::optional<std::uint32_t>> last_;  // by lane: that task
};

}  // namespace

BufferId ProgramWriter::add_buffer(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return BufferId(program_.buffers.size() - 1);
}

TaskKind kind_of(const std::variant<Kernel, Transfer, HostCopy>& work) {
  return std::holds_alternative<Kernel>(work)     ? TaskKind::Kernel
         : std::holds_alternative<Transfer>(work) ? TaskKind::Transfer
                                                  : TaskKind::Copy;
}

std::uint32_t ProgramWriter::add_work(std::variant<Kernel, Transfer, HostCopy> work) {
  const auto add = [](auto& list, auto& entry) {
    list.push_back(std::move(entry));
    return static_cast<std::uint32_t>(list.size() - 1);
  };
  if (auto* kernel = std::get_if<Kernel>(&work)) return add(program_.kernels, *kernel);
  if (auto* transfer = std::get_if<Transfer>(&work)) return add(program_.transfers, *transfer);
  return add(program_.copies, std::get<HostCopy>(work));
}

void ProgramWriter::reserve(std::size_t tasks, std::size_t operands, std::size_t buffers) {
  program_.tasks.reserve(program_.tasks.size() + tasks);
  program_.operands.reserve(program_.operands.size() + operands);
  program_.buffers.reserve(program_.buffers.size() + buffers);
}

void ProgramWriter::add_task(TaskKind kind, std::uint32_t what,
                             const std::vector<BufferId>& operands, OrderKey key,
                             std::optional<std::int32_t> microbatch, TaskMarks marks) {
  program_.tasks.push_back({.kind = kind,
                            .what = what,
                            .key = key,
                            .microbatch = microbatch,
                            .recompute = marks.recompute,
                            .waits_for_compute = marks.waits_for_compute,
                            .waits_for_copies = marks.waits_for_copies,
                            .has_predicate = marks.has_predicate,
                            .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
                            .operand_count = static_cast<std::uint32_t>(operands.size())});
  program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
}

void ProgramWriter::add_task(std::variant<Kernel, Transfer, HostCopy> work,
                             const std::vector<BufferId>& operands, OrderKey key, TaskMarks marks) {
  const TaskKind kind = kind_of(work);
  add_task(kind, add_work(std::move(work)), operands, key, std::nullopt, marks);
}

LaneId ProgramWriter::lane_of(const HostCopy& copy) {
  auto& lane = copy_lanes_[static_cast<std::size_t>(copy.direction)];
  if (!lane) {
    lane = LaneId(program_.lanes.size());
    program_.lanes.emplace_back(to_text(copy.direction));
  }
  return *lane;
}

LaneId ProgramWriter::lane_of(const Task& task) {
  if (task.kind == TaskKind::Kernel) return LaneId(0);
  if (task.kind == TaskKind::Copy) return lane_of(program_.copy(task));
  auto& known = lane_of_transfer_[task.what];
  if (known) return *known;
  const Transfer& transfer = program_.transfer(task);
  // All collectives of a group follow each other; each direction of a pair is a lane.
  const bool pair = is_pair(transfer.kind);
  const std::pair key(pair ? transfer.kind : TransferKind::AllReduce, transfer.group);
  const auto [entry, added] = lanes_.try_emplace(key, LaneId(program_.lanes.size()));
  if (added) program_.lanes.push_back(lane_name(transfer));
  known = entry->second;
  return *known;
}

// Tasks mostly come in order already.
void ProgramWriter::sort_tasks() {
  auto& tasks = program_.tasks;
  const auto earlier = [](const Task& a, const Task& b) { return a.key < b.key; };
  if (std::is_sorted(tasks.begin(), tasks.end(), earlier)) return;
  std::stable_sort(tasks.begin(), tasks.end(), earlier);
  std::vector<BufferId> operands;
  operands.reserve(program_.operands.size());
  for (Task& task : tasks) {
    const auto own = program_.operands_of(task);
    task.first_operand = static_cast<std::uint32_t>(operands.size());
    operands.insert(operands.end(), own.begin(), own.end());
  }
  program_.operands = std::move(operands);
}

void ProgramWriter::finish() {
  program_.lanes = {"compute"};
  sort_tasks();
  lane_of_transfer_.assign(program_.transfers.size(), std::nullopt);
  for (Task& task : program_.tasks) task.lane = lane_of(task);
  WaitFinder(program_).run();
  // Programs of many devices are played together: what was grown for them need not stay.
  program_.tasks.shrink_to_fit();
  program_.buffers.shrink_to_fit();
  program_.operands.shrink_to_fit();
  program_.waits.shrink_to_fit();
}

}  // namespace meshwright
