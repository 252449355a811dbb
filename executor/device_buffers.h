#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "executor/device.h"
#include "simulator/program/arena.h"

namespace meshwright {

// The buffers of a program in the memory of a device, laid out before it runs. Both must outlive
// it.
class DeviceBuffers {
 public:
  // All memory holds this byte.
  DeviceBuffers(const Program& program, Device& device, unsigned char byte);

  const Arena& arena(Space space) const { return space == Space::Host ? host_arena_ : arena_; }
  std::byte* start_of(BufferId id) const;
  std::span<std::byte> memory_of(BufferId id) const;

  // What a buffer holds when the lane has come so far.
  std::vector<std::byte> bytes_in(BufferId id, LaneId lane) const;
  std::vector<double> numbers_in(BufferId id, LaneId lane) const;
  double number_in(BufferId id, std::size_t index, LaneId lane) const;
  void fill(BufferId id, unsigned char byte, LaneId lane) const;

 private:
  const Program& program_;
  Device& device_;
  Arena arena_, host_arena_;
  std::byte *memory_, *host_memory_;
};

}  // namespace meshwright
