#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "costmodel/base/write_file.h"
#include "executor/process/ring.h"
#include "executor/process/streams.h"

namespace meshwright {

// Memory that processes of one machine have together: a ring for each ordered pair of them, and a
// bell for each. It has no name and goes away with the last process that has it. Pages that nobody
// touches take no memory.
class SharedMemory {
 public:
  // Made by one process; the others open it at the number that it has there. Throw
  // std::system_error.
  static SharedMemory make(std::size_t processes);
  static SharedMemory open(pid_t maker, int number, std::size_t processes);
  SharedMemory(SharedMemory&&) = default;

  // While others still have to open it.
  int number() const { return file_.number(); }

  struct Bell {
    alignas(64) std::atomic<std::uint32_t> caller;  // counts up, with a futex
    std::atomic<std::uint32_t> background;
    std::atomic<std::uint32_t> caller_waits, background_waits;
  };
  Bell& bell(std::size_t process) const;
  Ring ring(std::size_t from, std::size_t to) const;

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* start) const;
  };
  SharedMemory(FileDescriptor file, std::size_t processes);

  FileDescriptor file_;
  std::size_t processes_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

// Among the processes that have a memory, as the one at `self`. `places`: by the number that the
// run has for a process, its place in the memory.
std::unique_ptr<Streams> shared_streams(std::shared_ptr<const SharedMemory> memory,
                                        std::vector<std::size_t> places, std::size_t self);

}  // namespace meshwright
