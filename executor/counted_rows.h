#pragma once

#include <span>
#include <vector>

#include "executor/device_buffers.h"

namespace meshwright {

// Rows of experts, of which a step tells how many there are: reads the counts from the device.
class RowCounts {
 public:
  RowCounts(const Program& program, Device& device, const DeviceBuffers& buffers)
      : program_(program), device_(device), buffers_(buffers) {}

  // The transfer with the rows that its counts give this device.
  Transfer counted(LaneId lane, const Transfer& transfer, std::span<const BufferId> operands) const;
  // What the kernel's counts say, row-major; none where no operand is counted.
  std::vector<std::int64_t> counts_of(LaneId lane, const Kernel& kernel,
                                      std::span<const BufferId> operands) const;
  Kernel counted(const Kernel& kernel, std::span<const std::int64_t> counts,
                 std::span<const BufferId> operands) const;

 private:
  std::vector<std::int64_t> counts_in(LaneId lane, const Operand& operand, BufferId buffer) const;
  void check_room(std::int64_t rows, const Operand& operand, BufferId buffer) const;

  const Program& program_;
  Device& device_;
  const DeviceBuffers& buffers_;
};

}  // namespace meshwright
