#pragma once

#include <array>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// What a task says of itself beside what it does.
struct TaskMarks {
  bool recompute = false;
  bool waits_for_compute = false;
  bool waits_for_copies = false;
  bool has_predicate = false;  // it is the last of the operands
};

TaskKind kind_of(const std::variant<Kernel, Transfer, HostCopy>& work);

// Collects the tasks of one device in any order and puts them into the one that their keys give,
// with lanes and waits.
class ProgramWriter {
 public:
  explicit ProgramWriter(Program& program) : program_(program) {}

  // So many more are expected, or somewhat more.
  void reserve(std::size_t tasks, std::size_t operands, std::size_t buffers);
  BufferId add_buffer(Buffer buffer);
  // Work that several tasks may be.
  std::uint32_t add_work(std::variant<Kernel, Transfer, HostCopy> work);

  // `what` is an index that add_work returned.
  void add_task(TaskKind kind, std::uint32_t what, const std::vector<BufferId>& operands,
                OrderKey key, std::optional<std::int32_t> microbatch, TaskMarks marks = {});
  // Once a step.
  void add_task(std::variant<Kernel, Transfer, HostCopy> work,
                const std::vector<BufferId>& operands, OrderKey key, TaskMarks marks = {});

  void finish();

 private:
  void sort_tasks();
  LaneId lane_of(const Task& task);
  LaneId lane_of(const HostCopy& copy);

  Program& program_;
  std::map<std::pair<TransferKind, std::vector<DeviceId>>, LaneId> lanes_;
  std::vector<std::optional<LaneId>> lane_of_transfer_;  // as far as known
  std::array<std::optional<LaneId>, kCopyDirections> copy_lanes_;
};

}  // namespace meshwright
