#include <algorithm>
#include <map>
#include <set>

#include "tests/standin/runtime.h"

namespace meshwright::standin {
namespace {

struct GraphObjects {
  std::map<const void*, std::shared_ptr<std::vector<Capture::Node>>> captured;
  std::map<const void*, std::shared_ptr<Graph>> graphs;
};
GraphObjects& objects_of_graphs() {
  static GraphObjects all;
  return all;
}

cudaError_t refuse_graph(Machine& machine, const std::string& why, cudaError_t error) {
  machine.add_fault(why);
  return error;
}

}  // namespace

const Capture*& capture_of_thread() {
  thread_local const Capture* capture = nullptr;
  return capture;
}

bool may_be_captured(const std::string& function) {
  static const std::set<std::string> waiting = {
      "cudaDeviceSynchronize", "cudaEventElapsedTime", "cudaEventQuery",  "cudaEventSynchronize",
      "cudaHostAlloc",         "cudaMalloc",           "cudaMallocAsync", "cudaMallocHost",
      "cudaMemGetInfo",        "cudaMemcpy",           "cudaMemset",      "cudaStreamQuery",
      "cudaStreamSynchronize"};
  return !waiting.contains(function);
}

void forget_graphs() {
  const Lock held = Machine::the().lock();
  objects_of_graphs() = {};
  capture_of_thread() = nullptr;
}

cudaError_t wait_in_capture(Machine& machine, Stream& stream, const Event& event) {
  if (!event.capture) {
    return refuse_graph(machine,
                        "cudaStreamWaitEvent: a captured stream waits for an event that was "
                        "recorded outside of the capture",
                        cudaErrorStreamCaptureIsolation);
  }
  if (stream.capture && stream.capture != event.capture) {
    return refuse_graph(machine, "cudaStreamWaitEvent: two captures meet",
                        cudaErrorStreamCaptureMerge);
  }
  if (event.capture->origin->capture != event.capture) {
    return refuse_graph(machine, "cudaStreamWaitEvent: the event is of a capture that has ended",
                        cudaErrorCapturedEvent);
  }
  stream.capture = event.capture;
  for (const std::size_t node : event.nodes) {
    if (std::find(stream.last.begin(), stream.last.end(), node) == stream.last.end()) {
      stream.last.push_back(node);
    }
  }
  return cudaSuccess;
}

}  // namespace meshwright::standin

using namespace meshwright::standin;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return runtime_call(
      "cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported, [&](Machine& machine, Lock&) {
        Stream* const stream = own_stream(machine, "cudaStreamBeginCapture", handle);
        if (stream == nullptr || handle == nullptr) return cudaErrorInvalidResourceHandle;
        if (mode != cudaStreamCaptureModeThreadLocal) {
          // Devices are threads of one process: what one may not do while it captures, others may.
          return refuse_graph(machine, "cudaStreamBeginCapture: not of this thread alone",
                              cudaErrorInvalidValue);
        }
        if (stream->capture || capture_of_thread() != nullptr) {
          return refuse_graph(machine, "cudaStreamBeginCapture: a capture in a capture",
                              cudaErrorIllegalState);
        }
        stream->capture = std::make_shared<Capture>();
        stream->capture->origin = stream;
        stream->last.clear();
        capture_of_thread() = stream->capture.get();
        return cudaSuccess;
      });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return runtime_call(
      "cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, [&](Machine& machine, Lock&) {
        *graph = nullptr;
        Stream* const stream = own_stream(machine, "cudaStreamEndCapture", handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (!stream->capture || stream->capture->origin != stream) {
          return refuse_graph(machine, "cudaStreamEndCapture: not the stream it began with",
                              cudaErrorStreamCaptureUnmatched);
        }
        capture_of_thread() = nullptr;
        auto nodes = machine.end_capture(*stream);
        if (!nodes) {
          return refuse_graph(machine, "cudaStreamEndCapture: not all streams were joined",
                              cudaErrorStreamCaptureUnjoined);
        }
        const auto made = std::make_shared<std::vector<Capture::Node>>(std::move(*nodes));
        objects_of_graphs().captured.emplace(made.get(), made);
        *graph = reinterpret_cast<cudaGraph_t>(made.get());
        return cudaSuccess;
      });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  const Stream* const stream = machine.stream(handle, current_device());
  if (stream == nullptr) return note_error(cudaErrorInvalidResourceHandle);
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return runtime_call(
      "cudaGraphInstantiate", cudaErrorMemoryAllocation, [&](Machine& machine, Lock&) {
        const auto found = objects_of_graphs().captured.find(graph);
        if (found == objects_of_graphs().captured.end()) {
          return refuse_graph(machine, "cudaGraphInstantiate: no graph", cudaErrorInvalidValue);
        }
        const auto run = machine.make_graph(*found->second, current_device());
        objects_of_graphs().graphs.emplace(run.get(), run);
        *made = reinterpret_cast<cudaGraphExec_t>(run.get());
        return cudaSuccess;
      });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return runtime_call("cudaGraphLaunch", cudaErrorLaunchFailure, [&](Machine& machine, Lock&) {
    Stream* const stream = own_stream(machine, "cudaGraphLaunch", stream_handle);
    const auto found = objects_of_graphs().graphs.find(handle);
    if (stream == nullptr || found == objects_of_graphs().graphs.end()) {
      return refuse_graph(machine, "cudaGraphLaunch: no such graph or stream",
                          cudaErrorInvalidValue);
    }
    machine.put_graph(*stream, found->second);
    machine.run_some(stream->device);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock = Machine::the().lock();
  return objects_of_graphs().captured.erase(graph) == 1 ? cudaSuccess
                                                        : note_error(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  const auto found = objects_of_graphs().graphs.find(handle);
  if (found == objects_of_graphs().graphs.end()) return note_error(cudaErrorInvalidValue);
  machine.remove_graph(*found->second);
  objects_of_graphs().graphs.erase(found);
  return cudaSuccess;
}
