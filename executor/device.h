#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "executor/kernel_call.h"
#include "executor/transport.h"
#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// How the tasks of a stretch of the program's list are run.
enum class StretchMode {
  Run,
  Keep,   // it runs when the stretch ends, and is kept: nothing is read until then
  Repeat  // what was kept runs again when the stretch ends: only inputs are written, as before
};

// What the tasks of one program run on: memory, and the program's lanes. A lane does what it is
// given in that order; lanes run beside each other, as far as the device can, and meet only where
// one waits for a task of another. Buffers are places in what `allocate` gave. Every function may
// throw DeviceError.
class Device {
 public:
  virtual ~Device() = default;

  // At least so many bytes, for as long as the device is there. Throws MemoryError.
  virtual std::byte* allocate(Space space, Bytes size) = 0;
  // What it has taken of its own memory beside that. It stays the same from the first step on.
  virtual Bytes beside() const = 0;

  virtual void fill(LaneId lane, std::span<std::byte> memory, unsigned char byte) = 0;
  // `from` is the caller's, who may change it at once.
  virtual void write(LaneId lane, std::span<const std::byte> from, std::byte* to) = 0;
  // `to` is the caller's. Returns when it is filled, which is after all that the lane was given.
  virtual void read(LaneId lane, const std::byte* from, std::span<std::byte> to) = 0;
  // Between two spaces, one of them the host's.
  virtual void copy(LaneId lane, std::span<const std::byte> from, std::byte* to) = 0;
  // `to` is the caller's, where it stays: what the lane finds there is in it when `finish` returns.
  virtual void fetch(LaneId lane, const std::byte* from, std::span<std::byte> to) = 0;
  // Before the first step, for what launches of the call will need beside its buffers.
  virtual void prepare(LaneId lane, const KernelCall& call) = 0;
  // The call's kernel and settings are read at once; its buffers when the lane comes there.
  virtual void launch(LaneId lane, const KernelCall& call) = 0;
  // Throws PeerFailure when another device has failed. `buffers` as Transport::run has them.
  virtual void transfer(LaneId lane, const Transfer& transfer,
                        std::span<std::byte* const> buffers) = 0;

  // A task begins, or is done, when its lane has come so far.
  virtual void begin(LaneId lane, std::size_t task) = 0;
  virtual void record(LaneId lane, std::size_t task) = 0;
  // The lane goes on when a task that was recorded in another one is done.
  virtual void wait(LaneId lane, std::size_t task) = 0;
  // The tasks until `end_stretch` are a stretch, by its number in the program's list. A device that
  // can keep what it is given says so when a stretch comes again.
  virtual StretchMode begin_stretch(std::size_t stretch, const StepSettings& settings) = 0;
  virtual void end_stretch() = 0;  // if it was not Run: all of it is done, and fetched
  // Returns when all lanes have done what they were given.
  virtual void finish() = 0;
  // When a task ran that was recorded since the last but one `finish`: the clock is the same for
  // all devices of a run.
  virtual TaskSpan span(std::size_t task) const = 0;

  // Reaches the other devices, which all do so at the same time: before anything is transferred,
  // and anew once a failure is forgotten. The transport must outlive the connection.
  virtual void connect(Transport& transport) = 0;
  // From another thread, also while the device connects: what it waits for of others throws
  // PeerFailure with this reason.
  virtual void give_up(const std::string& reason) = 0;
  // With no other thread at the device, which is not connected then.
  virtual void forget_failure() = 0;
};

// The device of a program, which must outlive it; it is not connected. By the transport devices
// agree on what each of them is.
using DeviceMaker =
    std::function<std::unique_ptr<Device>(const Program& program, Transport& transport)>;

}  // namespace meshwright
