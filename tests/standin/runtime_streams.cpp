#include <stdexcept>

#include "tests/standin/emulator.h"
#include "tests/standin/runtime.h"

namespace meshwright::standin {

Stream* own_stream(Machine& machine, const std::string& function, cudaStream_t handle) {
  Stream* const stream = machine.stream(handle, current_device());
  if (stream == nullptr) {
    machine.add_fault(function + ": no such stream");
  } else if (stream->device != current_device()) {
    machine.add_fault(function + ": a stream of device " + std::to_string(stream->device) +
                      " while device " + std::to_string(current_device()) + " is current");
    return nullptr;
  }
  return stream;
}

namespace {

cudaStream_t handle_of(const std::shared_ptr<Stream>& stream) {
  return reinterpret_cast<cudaStream_t>(stream.get());
}

cudaError_t make_stream(const char* function, cudaStream_t* handle, unsigned flags) {
  return runtime_call(function, cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
    if (flags != cudaStreamNonBlocking) {
      // Its order against the stream without a name is not kept here.
      machine.add_fault(std::string(function) + ": a stream without cudaStreamNonBlocking");
      return cudaErrorInvalidValue;
    }
    *handle = handle_of(machine.add_stream(current_device()));
    return cudaSuccess;
  });
}

cudaError_t make_event(const char* function, cudaEvent_t* handle, unsigned flags) {
  return runtime_call(function, cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
    const bool timed = (flags & cudaEventDisableTiming) == 0;
    *handle = reinterpret_cast<cudaEvent_t>(machine.add_event(current_device(), timed).get());
    return cudaSuccess;
  });
}

cudaError_t put_wait(Machine& machine, Stream& stream, const std::shared_ptr<Event>& event) {
  if (stream.capture || event->capture) return wait_in_capture(machine, stream, *event);
  if (event->recorded == 0) {
    machine.add_fault(
        "cudaStreamWaitEvent: the event was never recorded, so nothing is waited for");
    return cudaSuccess;
  }
  const std::int64_t time = event->recorded;
  machine.put(stream, {.name = "cudaStreamWaitEvent",
                       .start = {},
                       .over = [event, time] { return event->reached >= time; },
                       .awaited = event});
  machine.run_some(stream.device);
  return cudaSuccess;
}

cudaError_t put_record(Machine& machine, Stream& stream, const std::shared_ptr<Event>& event) {
  if (event->device != stream.device) {
    machine.add_fault("cudaEventRecord: an event of device " + std::to_string(event->device) +
                      " in a stream of device " + std::to_string(stream.device));
    return cudaErrorInvalidResourceHandle;
  }
  event->capture = stream.capture;
  event->nodes = stream.last;
  if (stream.capture) return cudaSuccess;
  const std::int64_t time = ++event->recorded;
  event->stream = &stream;
  machine.put(stream, {.name = "cudaEventRecord",
                       .start =
                           [&machine, event, time] {
                             event->reached = time;
                             event->time_s = machine.now_s();
                           },
                       .recorded = event});
  machine.run_some(stream.device);
  return cudaSuccess;
}

// A node of the graph that is captured.
cudaError_t put_external_record(Machine& machine, Stream& stream,
                                const std::shared_ptr<Event>& event) {
  if (!stream.capture || event->device != stream.device) {
    machine.add_fault("cudaEventRecordWithFlags: an external event of no capture");
    return cudaErrorInvalidValue;
  }
  event->capture.reset();
  machine.put(stream, {.name = "cudaEventRecordWithFlags", .start = [&machine, event] {
                         event->reached = ++event->recorded;
                         event->time_s = machine.now_s();
                       }});
  return cudaSuccess;
}

void run_kernel_blocks(Machine& machine, int device, const std::string& name, unsigned blocks,
                       unsigned threads, const std::function<void()>& thread) {
  if (!machine.begins("kernel")) return machine.fail(device, "a test makes a kernel fail");
  try {
    run_blocks(blocks, threads, machine.draw(), thread);
  } catch (const std::logic_error& stuck) {
    machine.fail(device, name + ": " + stuck.what());
  }
}

}  // namespace

void launch_blocks(const char* name, unsigned blocks, unsigned threads, cudaStream_t handle,
                   std::function<void()> thread) {
  runtime_call("cudaLaunchKernel", cudaErrorLaunchOutOfResources, [&](Machine& machine, Lock&) {
    Stream* const stream = own_stream(machine, name, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (blocks < 1 || blocks > 0x7fffffffu || threads < 1 || threads > 1024) {
      machine.add_fault(std::string(name) + ": " + std::to_string(blocks) + " blocks of " +
                        std::to_string(threads) + " threads");
      return cudaErrorInvalidConfiguration;
    }
    const int device = stream->device;
    machine.put(*stream,
                {.name = name,
                 .start = [&machine, device, name, blocks, threads, body = std::move(thread)] {
                   run_kernel_blocks(machine, device, name, blocks, threads, body);
                 }});
    machine.run_some(device);
    return cudaSuccess;
  });
}

}  // namespace meshwright::standin

using namespace meshwright::standin;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return make_stream("cudaStreamCreateWithFlags", stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return make_stream("cudaStreamCreateWithPriority", stream, flags);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return make_stream("cudaStreamCreate", stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  Stream* const stream = handle == nullptr ? nullptr : machine.stream(handle, 0);
  if (stream == nullptr) {
    machine.add_fault("cudaStreamDestroy: no such stream");
    return note_error(cudaErrorInvalidResourceHandle);
  }
  stream->destroyed = true;
  return cudaSuccess;
}

// What is put there later is not waited for.
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return runtime_call(
      "cudaStreamSynchronize", cudaErrorIllegalAddress, [&](Machine& machine, Lock& lock) {
        Stream* const stream = machine.stream(handle, current_device());
        if (stream == nullptr) {
          machine.add_fault("cudaStreamSynchronize: no such stream");
          return cudaErrorInvalidResourceHandle;
        }
        const auto reached = std::make_shared<bool>(false);
        machine.put(*stream,
                    {.name = "cudaStreamSynchronize", .start = [reached] { *reached = true; }});
        const bool done = machine.run_until(lock, stream->device, stream, [&] { return *reached; });
        return done ? cudaSuccess : cudaErrorIllegalAddress;
      });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return runtime_call("cudaStreamQuery", cudaErrorIllegalAddress,
                      [&](Machine& machine, Lock& lock) {
                        Stream* const stream = machine.stream(handle, current_device());
                        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
                        if (!stream->queue.empty()) machine.poll(lock, stream->device);
                        if (machine.device(stream->device).failure) return cudaErrorIllegalAddress;
                        return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
                      });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return runtime_call(
      "cudaStreamWaitEvent", cudaErrorInvalidResourceHandle, [&](Machine& machine, Lock&) {
        Stream* const stream = machine.stream(handle, current_device());
        const auto event = machine.event(event_handle);
        if (stream == nullptr || !event) {
          machine.add_fault("cudaStreamWaitEvent: no such stream or event");
          return cudaErrorInvalidResourceHandle;
        }
        const bool ignored =
            machine.options().ignored_wait == machine.calls_of("cudaStreamWaitEvent");
        if (!ignored) return put_wait(machine, *stream, event);
        machine.leave_out(*stream, event);
        return cudaSuccess;
      });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return runtime_call("cudaLaunchHostFunc", cudaErrorInvalidValue, [&](Machine& machine, Lock&) {
    Stream* const stream = own_stream(machine, "cudaLaunchHostFunc", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.put(*stream, {.name = "cudaLaunchHostFunc", .start = [=] { function(data); }});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return make_event("cudaEventCreate", event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return make_event("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  if (!machine.event(handle)) {
    machine.add_fault("cudaEventDestroy: no such event");
    return note_error(cudaErrorInvalidResourceHandle);
  }
  machine.remove_event(handle);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  return runtime_call("cudaEventRecord", cudaErrorInvalidResourceHandle,
                      [&](Machine& machine, Lock&) {
                        Stream* const stream = machine.stream(handle, current_device());
                        const auto event = machine.event(event_handle);
                        if (stream == nullptr || !event) {
                          machine.add_fault("cudaEventRecord: no such stream or event");
                          return cudaErrorInvalidResourceHandle;
                        }
                        return put_record(machine, *stream, event);
                      });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event_handle, cudaStream_t handle,
                                     unsigned flags) {
  if (flags != cudaEventRecordExternal) return cudaEventRecord(event_handle, handle);
  return runtime_call("cudaEventRecordWithFlags", cudaErrorInvalidResourceHandle,
                      [&](Machine& machine, Lock&) {
                        Stream* const stream = machine.stream(handle, current_device());
                        const auto event = machine.event(event_handle);
                        if (stream == nullptr || !event) {
                          machine.add_fault("cudaEventRecordWithFlags: no such stream or event");
                          return cudaErrorInvalidResourceHandle;
                        }
                        return put_external_record(machine, *stream, event);
                      });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return runtime_call("cudaEventQuery", cudaErrorIllegalAddress, [&](Machine& machine, Lock& lock) {
    const auto event = machine.event(handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (event->reached < event->recorded) machine.poll(lock, event->device);
    if (machine.device(event->device).failure) return cudaErrorIllegalAddress;
    return event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return runtime_call("cudaEventSynchronize", cudaErrorIllegalAddress,
                      [&](Machine& machine, Lock& lock) {
                        const auto event = machine.event(handle);
                        if (!event) return cudaErrorInvalidResourceHandle;
                        const std::int64_t time = event->recorded;
                        const bool done = machine.run_until(lock, event->device, event->stream,
                                                            [&] { return event->reached >= time; });
                        return done ? cudaSuccess : cudaErrorIllegalAddress;
                      });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return runtime_call(
      "cudaEventElapsedTime", cudaErrorIllegalAddress, [&](Machine& machine, Lock&) {
        const auto start = machine.event(from), stop = machine.event(to);
        if (!start || !stop || !start->timed || !stop->timed || start->recorded == 0 ||
            stop->recorded == 0 || start->device != stop->device) {
          machine.add_fault("cudaEventElapsedTime: not two timed, recorded events of one device");
          return cudaErrorInvalidResourceHandle;
        }
        if (start->reached < start->recorded || stop->reached < stop->recorded) {
          return cudaErrorNotReady;
        }
        *milliseconds = static_cast<float>((stop->time_s - start->time_s) * 1e3);
        return cudaSuccess;
      });
}
