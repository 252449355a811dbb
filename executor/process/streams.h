#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meshwright {

// Who waits for the other processes: the thread that runs the program, or the one that keeps what
// is under way moving meanwhile.
enum class Waiter { Caller, Background };

// Bytes from this process to others and back, by their numbers; in order, none lost. All but
// `wake` is called by one thread at a time, but for `wait`.
class Streams {
 public:
  virtual ~Streams() = default;
  // How many bytes could be handed over or were there, without waiting. Throws PeerFailure where
  // the other end is gone.
  virtual std::size_t write(std::size_t to, std::span<const std::byte> bytes) = 0;
  virtual std::size_t read(std::size_t from, std::span<std::byte> bytes) = 0;
  // What `wait` is told: nothing that happens after this call is missed.
  virtual std::uint32_t moment(Waiter who) = 0;
  // Returns when there may be something to read or room to write, at the latest after a tenth of a
  // second.
  virtual void wait(Waiter who, std::uint32_t moment) = 0;
  // The caller no longer waits: the other thread is to be woken instead of it.
  virtual void stop_waiting() = 0;
  // Ends the waiting of one of this process's threads.
  virtual void wake(Waiter who) = 0;
};

}  // namespace meshwright
