#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// What a task says of itself beside what it does.
struct TaskMarks {
  bool recompute = false;
  bool waits_for_compute = false;
};

// Collects the tasks of one device in any order and puts them into the one that their keys give,
// with lanes and waits.
class ProgramWriter {
 public:
  explicit ProgramWriter(Program& program) : program_(program) {}

  BufferId add_buffer(Buffer buffer);
  std::uint32_t add_kernel(Kernel kernel);
  std::uint32_t add_transfer(Transfer transfer);
  std::uint32_t add_copy(HostCopy copy);

  void add_task(TaskKind kind, std::uint32_t what, const std::vector<BufferId>& operands,
                OrderKey key, std::optional<std::int32_t> microbatch, TaskMarks marks = {});
  void add_kernel_task(Kernel kernel, const std::vector<BufferId>& operands, OrderKey key);
  // Inside one buffer. Nothing for a group of one.
  void add_transfer_task(Transfer transfer, BufferId buffer, OrderKey key);

  // The whole of a buffer into another, on the host or from there.
  void add_copy_task(CopyDirection direction, BufferId from, BufferId to, OrderKey key);

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
