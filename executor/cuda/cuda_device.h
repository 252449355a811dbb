#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/cuda_library.h"
#include "executor/cuda/host_staging.h"
#include "executor/cuda/nccl_transfers.h"
#include "executor/cuda/stretch_graphs.h"
#include "executor/device.h"

namespace meshwright::cuda {

// A GPU of this process. Lanes are streams and waits are events; one thread gives all work, in the
// order of the program's list, and never blocks for longer than it takes to see that another device
// has failed. Reading a number waits for its lane: the worker does so for the loss of each
// micro-batch, for the norm of gradients and for counted rows. With graphs it does so only where a
// stretch of tasks ends.
class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaDeviceRequest& request);
  ~CudaDevice() override;

  std::byte* allocate(Space space, Bytes size) override;
  Bytes beside() const override;
  void fill(LaneId lane, std::span<std::byte> memory, unsigned char byte) override;
  void write(LaneId lane, std::span<const std::byte> from, std::byte* to) override;
  void read(LaneId lane, const std::byte* from, std::span<std::byte> to) override;
  void copy(LaneId lane, std::span<const std::byte> from, std::byte* to) override;
  void fetch(LaneId lane, const std::byte* from, std::span<std::byte> to) override;
  void prepare(LaneId lane, const KernelCall& call) override;
  void launch(LaneId lane, const KernelCall& call) override;
  void transfer(LaneId lane, const Transfer& transfer,
                std::span<std::byte* const> buffers) override;
  void begin(LaneId lane, std::size_t task) override;
  void record(LaneId lane, std::size_t task) override;
  void wait(LaneId lane, std::size_t task) override;
  StretchMode begin_stretch(std::size_t stretch, const StepSettings& settings) override;
  void end_stretch() override;
  void finish() override;
  TaskSpan span(std::size_t task) const override { return spans_[task]; }
  void connect(Transport& transport) override;
  void give_up(const std::string& reason) override { transfers_->give_up(reason); }
  void forget_failure() override;

 private:
  // When a task begins and is done.
  struct TaskEvents {
    Event start, stop;
    bool recorded = false;        // since the last `finish`
    std::unique_ptr<Event> done;  // what other lanes wait for in a graph
    bool in_graph = false;        // that is being captured
  };
  bool keeps() const { return graphs_ && graphs_->mode() == StretchMode::Keep; }
  std::vector<cudaStream_t> streams_beside() const;
  cudaStream_t stream(LaneId lane) const { return streams_[lane.index()]->get(); }
  void set_current() const;
  void wait_for(cudaStream_t stream);
  void drain();
  void set_origin();
  bool is_on_host(const std::byte* memory) const;
  void hold_up(LaneId lane);

  const Program& program_;
  std::vector<DeviceId> devices_;
  int gpu_;
  std::function<Seconds()> clock_;
  std::vector<std::unique_ptr<Stream>> streams_;     // by lane
  std::vector<std::unique_ptr<TaskEvents>> events_;  // by task
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<std::unique_ptr<PinnedMemory>> host_memory_;
  std::vector<std::span<const std::byte>> host_places_;
  std::unique_ptr<CudaKernels> kernels_;  // in the lane that computes
  std::unique_ptr<NcclTransfers> transfers_;
  HostStaging staging_, reading_, fetching_;
  std::vector<Fetched> fetched_;            // since the last `finish`
  std::unique_ptr<StretchGraphs> graphs_;   // none: every step is given anew
  std::optional<std::minstd_rand> delays_;  // that draws them; none: there are none
  std::unique_ptr<Event> origin_;           // when times count from
  Seconds origin_time_;
  std::vector<TaskSpan> spans_;  // by task
};

}  // namespace meshwright::cuda
