#pragma once

#include <cuda_runtime_api.h>

#include "tests/standin/launches.h"
#include "tests/standin/machine.h"

// What the parts of the stand-in for CUDA's runtime share.
namespace meshwright::standin {

// Of the thread that calls.
int& current_device();
cudaError_t note_error(cudaError_t error);

// The capture that the calling thread has begun; null: none.
const Capture*& capture_of_thread();
// Whether a thread may call it while it captures: what waits for a device or may do so may not be
// ("Prohibited and Unhandled Operations" of CUDA's programming guide).
bool may_be_captured(const std::string& function);
// A stream that is captured, or an event that stands for what was: the stream joins the capture.
cudaError_t wait_in_capture(Machine& machine, Stream& stream, const Event& event);
void forget_graphs();

// A call of the runtime that fails as `if_injected` when a test wants it to; otherwise the body,
// which is given the machine and its lock, says how it went.
template <class Body>
cudaError_t runtime_call(const char* function, cudaError_t if_injected, Body body) {
  Machine& machine = Machine::the();
  Lock lock = machine.lock();
  if (!machine.begins(function)) return note_error(if_injected);
  if (!machine.has_device(current_device())) return note_error(cudaErrorNoDevice);
  if (machine.device(current_device()).failure) return note_error(cudaErrorIllegalAddress);
  if (capture_of_thread() != nullptr && !may_be_captured(function)) {
    machine.add_fault(std::string(function) + ": while a stream is captured");
    return note_error(cudaErrorStreamCaptureUnsupported);
  }
  return note_error(body(machine, lock));
}

// The stream of a handle, if it is one of the current device; a fault if not.
Stream* own_stream(Machine& machine, const std::string& function, cudaStream_t handle);

}  // namespace meshwright::standin
