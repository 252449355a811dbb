#include <cstring>

#include "tests/standin/runtime.h"

// Memory and copies. cudaMemcpy from memory that is not pinned ends when the host's bytes have been
// read; that they have also arrived is certain only in the stream without a name, as CUDA's
// documentation has it ("API synchronization behavior").
namespace meshwright::standin {
namespace {

enum class Where { Device, Pinned, Pageable };

struct Place {
  Where where = Where::Pageable;
  int device = 0;
};

// None: the range begins in known memory and leaves it, or was freed.
std::optional<Place> place_of(Machine& machine, const std::string& what, const void* start,
                              std::size_t bytes) {
  if (const Allocation* found = machine.memory().find(start, bytes)) {
    if (!found->device) return Place{Where::Pinned, 0};
    return Place{Where::Device, *found->device};
  }
  const bool known = machine.memory().find(start, 1) != nullptr;
  if (!known && !machine.memory().was_freed(start)) return Place{};
  machine.add_fault(
      what + ": " + std::to_string(bytes) +
      (known ? " bytes reach beyond their allocation" : " bytes in memory that was freed"));
  return {};
}

bool is_of(cudaMemcpyKind kind, Where from, Where to) {
  const bool from_host = from != Where::Device, to_host = to != Where::Device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return from_host && to_host;
    case cudaMemcpyHostToDevice:
      return from_host && !to_host;
    case cudaMemcpyDeviceToHost:
      return !from_host && to_host;
    case cudaMemcpyDeviceToDevice:
      return !from_host && !to_host;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

struct Copy {
  std::string function;
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;
};

Operation copy_operation(Machine& machine, const Copy& copy, const Place& from, const Place& to) {
  std::shared_ptr<std::vector<char>> staged;
  if (from.where == Where::Pageable) {
    const auto* const bytes = static_cast<const char*>(copy.from);
    staged = std::make_shared<std::vector<char>>(bytes, bytes + copy.bytes);
  }
  return {.name = copy.function, .start = [&machine, copy, from, to, staged] {
            if (from.where == Where::Device) machine.open(from.device);
            if (to.where == Where::Device) machine.open(to.device);
            std::memmove(copy.to, staged ? staged->data() : copy.from, copy.bytes);
          }};
}

// `whole`: as cudaMemcpy.
cudaError_t put_copy(Machine& machine, Lock& lock, const Copy& copy, Stream& stream, bool whole) {
  if (copy.bytes == 0) return cudaSuccess;
  const auto from = place_of(machine, copy.function + ", from", copy.from, copy.bytes);
  const auto to = place_of(machine, copy.function + ", to", copy.to, copy.bytes);
  if (!from || !to) return cudaErrorInvalidValue;
  if (!is_of(copy.kind, from->where, to->where)) {
    machine.add_fault(copy.function + ": the memory is not of the kind that the call names");
    return cudaErrorInvalidValue;
  }
  if (stream.capture && (from->where == Where::Pageable || to->where == Where::Pageable)) {
    machine.add_fault(copy.function + ": memory that is not pinned while a stream is captured");
    return cudaErrorStreamCaptureUnsupported;
  }
  machine.put(stream, copy_operation(machine, copy, *from, *to));
  const bool to_host = to->where != Where::Device;
  const bool waits = whole ? to_host || from->where == Where::Pinned : to->where == Where::Pageable;
  if (!waits) {
    machine.run_some(stream.device);
    return cudaSuccess;
  }
  const bool done =
      machine.run_until(lock, stream.device, &stream, [&] { return stream.queue.empty(); });
  return done ? cudaSuccess : cudaErrorIllegalAddress;
}

cudaError_t put_set(Machine& machine, const std::string& function, void* to, int value,
                    std::size_t bytes, Stream& stream) {
  if (!machine.check_range(function, to, bytes, stream.device)) return cudaErrorInvalidValue;
  machine.put(stream, {.name = function, .start = [=] { std::memset(to, value, bytes); }});
  machine.run_some(stream.device);
  return cudaSuccess;
}

cudaError_t pinned(const char* function, void** memory, std::size_t bytes) {
  return runtime_call(function, cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
    *memory = machine.allocate(bytes, {});
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Frees wait for all that runs on the device.
cudaError_t give_back(const char* function, void* memory, bool of_the_host) {
  Machine& machine = Machine::the();
  Lock lock = machine.lock();
  if (memory == nullptr) return cudaSuccess;
  const Allocation* const found = machine.memory().find(memory, 0);
  const bool same = found != nullptr && machine.memory().is_start(memory);
  if (!same || found->device.has_value() == of_the_host) {
    machine.add_fault(std::string(function) + ": not the start of an allocation of its kind");
    return note_error(cudaErrorInvalidValue);
  }
  const int device = found->device.value_or(current_device());
  if (!machine.device(device).failure) machine.run_device(lock, device);
  machine.release(memory);
  return cudaSuccess;
}

}  // namespace
}  // namespace meshwright::standin

using namespace meshwright::standin;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return runtime_call("cudaMalloc", cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
    *memory = bytes == 0 ? nullptr : machine.allocate(bytes, current_device());
    return bytes != 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
// The memory is of a stream; that others wait for it is theirs to see to.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t handle) {
  return runtime_call("cudaMallocAsync", cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
    const Stream* const stream = own_stream(machine, "cudaMallocAsync", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *memory = bytes == 0 ? nullptr : machine.allocate(bytes, stream->device);
    return bytes != 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaFree(void* memory) { return give_back("cudaFree", memory, false); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return pinned("cudaMallocHost", memory, bytes);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return pinned("cudaHostAlloc", memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) { return give_back("cudaFreeHost", memory, true); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return runtime_call("cudaMemGetInfo", cudaErrorInvalidValue, [&](Machine& machine, Lock&) {
    *total = machine.options().memory;
    *free = *total - machine.device(current_device()).used;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return runtime_call("cudaMemcpy", cudaErrorIllegalAddress, [&](Machine& machine, Lock& lock) {
    Stream& stream = *machine.stream(nullptr, current_device());
    return put_copy(machine, lock, {"cudaMemcpy", to, from, bytes, kind}, stream, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return runtime_call(
      "cudaMemcpyAsync", cudaErrorIllegalAddress, [&](Machine& machine, Lock& lock) {
        Stream* const stream = own_stream(machine, "cudaMemcpyAsync", handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        return put_copy(machine, lock, {"cudaMemcpyAsync", to, from, bytes, kind}, *stream, false);
      });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return runtime_call("cudaMemset", cudaErrorIllegalAddress, [&](Machine& machine, Lock&) {
    return put_set(machine, "cudaMemset", to, value, bytes,
                   *machine.stream(nullptr, current_device()));
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  return runtime_call("cudaMemsetAsync", cudaErrorIllegalAddress, [&](Machine& machine, Lock&) {
    Stream* const stream = own_stream(machine, "cudaMemsetAsync", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return put_set(machine, "cudaMemsetAsync", to, value, bytes, *stream);
  });
}
