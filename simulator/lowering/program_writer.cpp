#include "simulator/lowering/program_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/operand_use.h"

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

// Who used a buffer last, as far as later tasks must wait for it.
struct BufferUse {
  std::optional<std::uint32_t> writer;
  std::vector<std::uint32_t> readers;  // since it was written
};

// The tasks each task must wait for: the last writer of what it uses and, before it writes, the
// readers. Of a lane only the last is kept, for its tasks run one after the other.
class WaitFinder {
 public:
  explicit WaitFinder(Program& program) : program_(program), uses_(program.buffers.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      Task& task = program_.tasks[i];
      std::map<LaneId, std::uint32_t> last;
      const auto operands = program_.operands_of(task);
      for (std::size_t o = 0; o < operands.size(); ++o) {
        collect(operands[o], writes_operand(program_, task, o), task.lane, last);
      }
      for (std::size_t o = 0; o < operands.size(); ++o) note(i, task, operands[o], o);
      task.first_wait = static_cast<std::uint32_t>(program_.waits.size());
      task.wait_count = static_cast<std::uint32_t>(last.size());
      for (const auto& [lane, wait] : last) program_.waits.push_back(TaskId(wait));
    }
  }

 private:
  void collect(BufferId buffer, bool written, LaneId own, std::map<LaneId, std::uint32_t>& last) {
    const auto add = [&](std::uint32_t index) {
      const LaneId lane = program_.tasks[index].lane;
      if (lane == own) return;
      const auto [entry, added] = last.try_emplace(lane, index);
      if (!added) entry->second = std::max(entry->second, index);
    };
    const BufferUse& use = uses_[buffer.index()];
    if (use.writer) add(*use.writer);
    if (!written) return;
    for (const std::uint32_t reader : use.readers) add(reader);
  }

  void note(std::uint32_t index, const Task& task, BufferId buffer, std::size_t operand) {
    BufferUse& use = uses_[buffer.index()];
    if (writes_operand(program_, task, operand)) use = {index, {}};
    if (reads_operand(program_, task, operand)) use.readers.push_back(index);
  }

  Program& program_;
  std::vector<BufferUse> uses_;
};

}  // namespace

BufferId ProgramWriter::add_buffer(Buffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return BufferId(program_.buffers.size() - 1);
}

std::uint32_t ProgramWriter::add_kernel(Kernel kernel) {
  program_.kernels.push_back(std::move(kernel));
  return static_cast<std::uint32_t>(program_.kernels.size() - 1);
}

std::uint32_t ProgramWriter::add_transfer(Transfer transfer) {
  program_.transfers.push_back(std::move(transfer));
  return static_cast<std::uint32_t>(program_.transfers.size() - 1);
}

void ProgramWriter::add_task(TaskKind kind, std::uint32_t what, std::vector<BufferId> operands,
                             OrderKey key, std::optional<std::int32_t> microbatch, bool recompute) {
  drafts_.push_back(
      {{.kind = kind, .what = what, .key = key, .microbatch = microbatch, .recompute = recompute},
       std::move(operands)});
}

void ProgramWriter::add_kernel_task(Kernel kernel, std::vector<BufferId> operands, OrderKey key) {
  add_task(TaskKind::Kernel, add_kernel(std::move(kernel)), std::move(operands), key, std::nullopt);
}

void ProgramWriter::add_transfer_task(Transfer transfer, BufferId buffer, OrderKey key) {
  if (transfer.group.size() < 2) return;
  add_task(TaskKind::Transfer, add_transfer(std::move(transfer)), {buffer}, key, std::nullopt);
}

LaneId ProgramWriter::lane_of(const Task& task) {
  if (task.kind == TaskKind::Kernel) return LaneId(0);
  const Transfer& transfer = program_.transfer(task);
  // All collectives of a group follow each other; each direction of a pair is a lane.
  const bool pair = transfer.kind == TransferKind::Send || transfer.kind == TransferKind::Receive;
  const std::pair key(pair ? transfer.kind : TransferKind::AllReduce, transfer.group);
  const auto [entry, added] = lanes_.try_emplace(key, LaneId(program_.lanes.size()));
  if (added) program_.lanes.push_back(lane_name(transfer));
  return entry->second;
}

void ProgramWriter::finish() {
  program_.lanes = {"compute"};
  std::stable_sort(drafts_.begin(), drafts_.end(),
                   [](const Draft& a, const Draft& b) { return a.task.key < b.task.key; });
  for (Draft& draft : drafts_) {
    draft.task.lane = lane_of(draft.task);
    draft.task.first_operand = static_cast<std::uint32_t>(program_.operands.size());
    draft.task.operand_count = static_cast<std::uint32_t>(draft.operands.size());
    program_.operands.insert(program_.operands.end(), draft.operands.begin(), draft.operands.end());
    program_.tasks.push_back(draft.task);
  }
  WaitFinder(program_).run();
}

}  // namespace meshwright
