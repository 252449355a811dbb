#include "executor/device_buffers.h"

#include "executor/element_numbers.h"

namespace meshwright {

DeviceBuffers::DeviceBuffers(const Program& program, Device& device, unsigned char byte)
    : program_(program),
      device_(device),
      arena_(lay_out_arena(program)),
      host_arena_(lay_out_arena(program, Space::Host)),
      memory_(device.allocate(Space::Device, arena_.peak)),
      host_memory_(device.allocate(Space::Host, host_arena_.peak)) {
  const LaneId lane(0);
  device.fill(lane, {memory_, static_cast<std::size_t>(arena_.peak.value())}, byte);
  device.fill(lane, {host_memory_, static_cast<std::size_t>(host_arena_.peak.value())}, byte);
  device.finish();
}

std::byte* DeviceBuffers::start_of(BufferId id) const {
  const Space space = program_.buffers[id.index()].space;
  std::byte* const memory = space == Space::Host ? host_memory_ : memory_;
  return memory + arena(space).offsets[id.index()]->value();
}

std::span<std::byte> DeviceBuffers::memory_of(BufferId id) const {
  const Bytes size = bytes_of(program_.buffers[id.index()], program_.precision);
  return {start_of(id), static_cast<std::size_t>(size.value())};
}

std::vector<std::byte> DeviceBuffers::bytes_in(BufferId id, LaneId lane) const {
  const auto memory = memory_of(id);
  std::vector<std::byte> bytes(memory.size());
  device_.read(lane, memory.data(), bytes);
  return bytes;
}

std::vector<double> DeviceBuffers::numbers_in(BufferId id, LaneId lane) const {
  return numbers_of(bytes_in(id, lane), program_.buffers[id.index()].element, program_.precision);
}

double DeviceBuffers::number_in(BufferId id, std::size_t index, LaneId lane) const {
  const BufferElement element = program_.buffers[id.index()].element;
  const auto width =
      static_cast<std::size_t>(bytes_per_element(element, program_.precision).value());
  std::vector<std::byte> bytes(width);
  device_.read(lane, start_of(id) + index * width, bytes);
  return numbers_of(bytes, element, program_.precision)[0];
}

void DeviceBuffers::fill(BufferId id, unsigned char byte, LaneId lane) const {
  device_.fill(lane, memory_of(id), byte);
}

}  // namespace meshwright
