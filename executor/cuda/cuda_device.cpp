#include "executor/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "costmodel/base/input_error.h"
#include "executor/device_error.h"
#include "executor/environment_error.h"
#include "executor/memory_error.h"

namespace meshwright::cuda {
namespace {

using namespace std::chrono_literals;

// Many streams wait for each other, and must not do so because they share a queue of the hardware.
// NCCL may start what it is given in any order: in that of the calls (NCCL_LAUNCH_ORDER_IMPLICIT) a
// send would wait for receives that are given before it, and these for a send of another device
// that does the same.
void set_environment() {
  static std::once_flag once;
  std::call_once(once, [] { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); });
}

std::string device_text(const Program& program) {
  return "device " + std::to_string(program.device.index());
}

// What goes wrong before there are tasks to name.
template <class Work>
auto naming_device(const Program& program, Work work) {
  try {
    return work();
  } catch (const DeviceError& error) {
    throw DeviceError(device_text(program) + ": " + error.what());
  }
}

int usable_gpu(const CudaDeviceRequest& request) {
  int driver = 0, found = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) throw EnvironmentError("CUDA: this machine has no NVIDIA driver");
  check(cudaGetDeviceCount(&found), "cudaGetDeviceCount");
  if (static_cast<int>(request.gpu) < found) return static_cast<int>(request.gpu);
  throw EnvironmentError("CUDA: " + device_text(request.program) + " of the plan needs GPU " +
                         std::to_string(request.gpu) + " of this machine, which has " +
                         std::to_string(found));
}

// What is not written is refused before anything starts.
void check_kernels(const Program& program) {
  for (const Kernel& kernel : program.kernels) {
    if (has_kernel(kernel, program.precision)) continue;
    throw EnvironmentError("CUDA: there is no kernel " + std::string(to_text(kernel.kind)) + " " +
                           std::string(to_text(kernel.phase)) +
                           (kernel.accumulate ? " that accumulates" : "") + " in " +
                           std::string(to_text(program.precision)) + " for " +
                           (kernel.name.empty() ? "an op" : printable(kernel.name)) +
                           " as the plan has it; --device cpu has all of them");
  }
}

// A graph has the sizes that it was captured with.
void check_fixed(const Program& program) {
  const bool counted =
      std::ranges::any_of(program.kernels, [](const Kernel& k) { return k.counts.has_value(); }) ||
      std::ranges::any_of(program.transfers, [](const Transfer& t) { return t.rows.has_value(); });
  if (!counted) return;
  throw EnvironmentError(
      "CUDA: rows of experts are counted in every step, and graphs need sizes that stay the same; "
      "run it without --cuda-graphs");
}

}  // namespace

CudaDevice::CudaDevice(const CudaDeviceRequest& request)
    : program_(request.program),
      devices_(request.devices),
      gpu_(usable_gpu(request)),
      clock_(request.clock),
      spans_(request.program.tasks.size()) {
  check_kernels(program_);
  set_current();
  for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
    streams_.push_back(std::make_unique<Stream>());
  }
  for (std::size_t task = 0; task < program_.tasks.size(); ++task) {
    events_.push_back(std::make_unique<TaskEvents>());
  }
  // Each device has others.
  if (request.options.delays)
    delays_.emplace(*request.options.delays + 1 + request.program.device.index());
  kernels_ = std::make_unique<CudaKernels>(stream(LaneId(0)));
  transfers_ = std::make_unique<NcclTransfers>(program_);
  if (request.options.graphs) {
    check_fixed(program_);
    graphs_ = std::make_unique<StretchGraphs>(stream(LaneId(0)));
    for (const auto& events : events_) events->done = std::make_unique<Event>();
  }
  set_origin();
}

// What waits for other devices is ended first, so that streams can be.
CudaDevice::~CudaDevice() {
  cudaSetDevice(gpu_);
  if (graphs_) graphs_->end_capture();
  transfers_.reset();
}

void CudaDevice::set_current() const { check(cudaSetDevice(gpu_), "cudaSetDevice"); }

void CudaDevice::connect(Transport& transport) {
  naming_device(program_, [&] {
    set_current();
    transfers_->connect(transport, devices_);
  });
}

void CudaDevice::forget_failure() {
  set_current();
  if (graphs_) graphs_->abandon();
  transfers_ = std::make_unique<NcclTransfers>(program_);
}

std::byte* CudaDevice::allocate(Space space, Bytes size) {
  set_current();
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(size.value(), 1));
  try {
    if (space == Space::Host) {
      host_memory_.push_back(std::make_unique<PinnedMemory>(bytes));
      const auto* start = static_cast<const std::byte*>(host_memory_.back()->data());
      host_places_.push_back({start, bytes});
      return static_cast<std::byte*>(host_memory_.back()->data());
    }
    memory_.push_back(std::make_unique<DeviceMemory>(bytes));
    return static_cast<std::byte*>(memory_.back()->data());
  } catch (const DeviceError& refused) {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = 0;
    throw MemoryError("out of memory: " + device_text(program_) + " needs " + to_text(size) +
                      (space == Space::Host
                           ? " on its host"
                           : ", its GPU has " + to_text(Bytes(static_cast<std::int64_t>(free)))) +
                      ": " + refused.what());
  }
}

Bytes CudaDevice::beside() const {
  return transfers_->space().total() + Bytes(static_cast<std::int64_t>(kernels_->bytes()));
}

bool CudaDevice::is_on_host(const std::byte* memory) const {
  for (const auto& place : host_places_) {
    if (memory >= place.data() && memory < place.data() + place.size()) return true;
  }
  return false;
}

// The host looks again and again, first at once and then less often.
void CudaDevice::wait_for(cudaStream_t stream) {
  for (int looked = 0;; ++looked) {
    if (is_done(cudaStreamQuery(stream), "cudaStreamQuery")) return;
    if (looked % 64 == 63) transfers_->check_alive();
    if (looked < 1000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(20us);
    }
  }
}

void CudaDevice::fill(LaneId lane, std::span<std::byte> memory, unsigned char byte) {
  set_current();
  if (memory.empty()) return;
  if (is_on_host(memory.data())) {
    wait_for(stream(lane));
    std::memset(memory.data(), byte, memory.size());
    return;
  }
  check(cudaMemsetAsync(memory.data(), byte, memory.size(), stream(lane)), "cudaMemsetAsync");
}

void CudaDevice::write(LaneId lane, std::span<const std::byte> from, std::byte* to) {
  set_current();
  for (std::size_t first = 0; first < from.size(); first += HostStaging::kMost) {
    const auto piece = from.subspan(first, std::min(HostStaging::kMost, from.size() - first));
    const bool in_stretch = graphs_ && graphs_->is_open();
    if (!in_stretch && staging_.is_large()) drain();
    std::byte* const staged =
        in_stretch ? graphs_->input(piece.size()) : staging_.take(piece.size());
    std::memcpy(staged, piece.data(), piece.size());
    if (in_stretch && graphs_->mode() == StretchMode::Repeat) continue;
    check(cudaMemcpyAsync(to + first, staged, piece.size(), cudaMemcpyDefault, stream(lane)),
          "cudaMemcpyAsync");
  }
}

void CudaDevice::read(LaneId lane, const std::byte* from, std::span<std::byte> to) {
  set_current();
  for (std::size_t first = 0; first < to.size(); first += HostStaging::kMost) {
    const auto piece = to.subspan(first, std::min(HostStaging::kMost, to.size() - first));
    reading_.give_back();
    std::byte* const staged = reading_.take(piece.size());
    check(cudaMemcpyAsync(staged, from + first, piece.size(), cudaMemcpyDefault, stream(lane)),
          "cudaMemcpyAsync");
    wait_for(stream(lane));
    std::memcpy(piece.data(), staged, piece.size());
  }
}

void CudaDevice::fetch(LaneId lane, const std::byte* from, std::span<std::byte> to) {
  set_current();
  for (std::size_t first = 0; first < to.size(); first += HostStaging::kMost) {
    const auto piece = to.subspan(first, std::min(HostStaging::kMost, to.size() - first));
    const bool in_stretch = graphs_ && graphs_->is_open();
    std::byte* const staged = in_stretch ? graphs_->output(piece) : fetching_.take(piece.size());
    if (!keeps()) fetched_.push_back({staged, piece});
    check(cudaMemcpyAsync(staged, from + first, piece.size(), cudaMemcpyDefault, stream(lane)),
          "cudaMemcpyAsync");
  }
}

void CudaDevice::prepare(LaneId, const KernelCall& call) {
  set_current();
  kernels_->prepare(call, program_.precision);
}

void CudaDevice::copy(LaneId lane, std::span<const std::byte> from, std::byte* to) {
  set_current();
  check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, stream(lane)),
        "cudaMemcpyAsync");
}

void CudaDevice::launch([[maybe_unused]] LaneId lane, const KernelCall& call) {
  set_current();
  assert(lane == LaneId(0));
  if (kernels_->launch(call, program_.precision)) return;
  throw DeviceError("CUDA: this GPU has no " + std::string(to_text(call.kernel.kind)) + " " +
                    std::string(to_text(call.kernel.phase)) + " in " +
                    std::string(to_text(program_.precision)) + " of these sizes");
}

void CudaDevice::transfer(LaneId lane, const Transfer& transfer,
                          std::span<std::byte* const> buffers) {
  set_current();
  transfers_->run(lane, stream(lane), transfer, buffers);
}

// One task in four starts up to so long later.
void CudaDevice::hold_up(LaneId lane) {
  constexpr unsigned kLongest = 200;  // microseconds
  if ((*delays_)() % 4 != 0) return;
  const std::uintptr_t microseconds = (*delays_)() % kLongest;
  const auto sleep = [](void* how_long) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(how_long)));
  };
  check(cudaLaunchHostFunc(stream(lane), sleep, reinterpret_cast<void*>(microseconds)),
        "cudaLaunchHostFunc");
}

void CudaDevice::begin(LaneId lane, std::size_t task) {
  set_current();
  if (delays_) hold_up(lane);
  keeps() ? events_[task]->start.record_in_graph(stream(lane))
          : events_[task]->start.record(stream(lane));
}

void CudaDevice::record(LaneId lane, std::size_t task) {
  set_current();
  TaskEvents& events = *events_[task];
  if (keeps()) {
    events.stop.record_in_graph(stream(lane));
    events.done->record(stream(lane));
    events.in_graph = true;
    return graphs_->add_task(task);
  }
  events.stop.record(stream(lane));
  events.recorded = true;
}

// A graph starts when the one before it is done, and so are tasks of that one.
void CudaDevice::wait(LaneId lane, std::size_t task) {
  set_current();
  const TaskEvents& events = *events_[task];
  if (keeps() && !events.in_graph) return;
  check(cudaStreamWaitEvent(stream(lane), (keeps() ? *events.done : events.stop).get(), 0),
        "cudaStreamWaitEvent");
}

std::vector<cudaStream_t> CudaDevice::streams_beside() const {
  std::vector<cudaStream_t> streams = transfers_->send_streams();
  for (std::size_t lane = 1; lane < streams_.size(); ++lane) {
    streams.push_back(streams_[lane]->get());
  }
  return streams;
}

StretchMode CudaDevice::begin_stretch(std::size_t stretch, const StepSettings& settings) {
  if (!graphs_) return StretchMode::Run;
  set_current();
  kernels_->place().numbers(settings);
  return graphs_->begin(stretch, streams_beside());
}

void CudaDevice::end_stretch() {
  set_current();
  graphs_->launch();
  wait_for(stream(LaneId(0)));
  transfers_->forget_sends();
  deliver(graphs_->fetched());
  for (const std::size_t task : graphs_->tasks()) {
    events_[task]->recorded = true;
    events_[task]->in_graph = false;
  }
  graphs_->end();
}

void CudaDevice::drain() {
  for (const auto& lane : streams_) wait_for(lane->get());
  for (const cudaStream_t sends : transfers_->send_streams()) wait_for(sends);
  transfers_->forget_sends();
  staging_.give_back();
}

// Times are taken when all is done: an event's time is known then.
void CudaDevice::finish() {
  set_current();
  drain();
  deliver(fetched_);
  fetched_.clear();
  fetching_.give_back();
  if (graphs_) graphs_->end();
  for (std::size_t task = 0; task < events_.size(); ++task) {
    TaskEvents& events = *events_[task];
    if (!events.recorded) continue;
    spans_[task] = {origin_time_ + Seconds(events.start.seconds_since(*origin_)),
                    origin_time_ + Seconds(events.stop.seconds_since(*origin_))};
    events.recorded = false;
  }
  set_origin();
}

// Events know how far they are from each other, in a number of few bits: so the one that times
// count from is a new one for each step.
void CudaDevice::set_origin() {
  if (!origin_) origin_ = std::make_unique<Event>();
  origin_->record(stream(LaneId(0)));
  wait_for(stream(LaneId(0)));
  origin_time_ = clock_();
}

}  // namespace meshwright::cuda

extern "C" meshwright::Device* meshwright_cuda_device(
    const meshwright::CudaDeviceRequest& request) {
  meshwright::cuda::check_version(request.version);
  meshwright::cuda::set_environment();
  return meshwright::cuda::naming_device(request.program, [&] {
    return std::make_unique<meshwright::cuda::CudaDevice>(request).release();
  });
}
