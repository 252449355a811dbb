#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/cuda/device_memory.h"
#include "executor/cuda/host_staging.h"
#include "executor/device.h"

namespace meshwright::cuda {

class GraphRun : public Owned<cudaGraphExec_t, cudaGraphExecDestroy> {
 public:
  explicit GraphRun(cudaGraph_t graph) {
    check(cudaGraphInstantiate(place(), graph, 0), "cudaGraphInstantiate");
  }
};

// Bytes that lie in memory of the host that copies reach, and where the caller wants them.
struct Fetched {
  const std::byte* from = nullptr;
  std::span<std::byte> to;
};
void deliver(const std::vector<Fetched>& fetched);

// Stretches of a program's tasks as CUDA graphs: a stretch runs as it is given the first time, when
// libraries make what they make once, is captured the second time and launched from then on. All
// is given to `origin` and to streams that the capture is forked to and joined from.
class StretchGraphs {
 public:
  explicit StretchGraphs(cudaStream_t origin) : origin_(origin) {}
  ~StretchGraphs() { end_capture(); }
  StretchGraphs(const StretchGraphs&) = delete;
  StretchGraphs& operator=(const StretchGraphs&) = delete;

  StretchMode begin(std::size_t stretch, const std::vector<cudaStream_t>& others);
  StretchMode mode() const { return mode_; }
  // Inputs and outputs go through memory of the stretch.
  bool is_open() const { return open_; }
  // Gives the stretch to the origin.
  void launch();
  // After it is done.
  void end();
  // Ends a capture that nobody wants any more.
  void end_capture();
  // Forgets all graphs too.
  void abandon();

  // Of the host: where the next bytes of an input are to be written, as many as the first time.
  std::byte* input(std::size_t bytes);
  std::byte* output(std::span<std::byte> to);
  void add_task(std::size_t task) { current().tasks.push_back(task); }
  const std::vector<std::size_t>& tasks() const { return stretches_[number_]->tasks; }
  const std::vector<Fetched>& fetched() const { return stretches_[number_]->fetched; }

 private:
  struct Kept {
    std::vector<std::size_t> tasks;
    HostStaging inputs, outputs;
    std::vector<std::byte*> pieces;  // of inputs, in their order
    std::size_t next_piece = 0;
    std::vector<Fetched> fetched;
    std::unique_ptr<GraphRun> graph;  // none: it is captured when it comes next
  };
  Kept& current() { return *stretches_[number_]; }
  void fork();
  void join();

  cudaStream_t origin_;
  std::vector<std::unique_ptr<Kept>> stretches_;  // those that have been begun
  std::size_t number_ = 0;
  StretchMode mode_ = StretchMode::Run;
  bool open_ = false;
  std::vector<cudaStream_t> others_;
  Event forked_;
  std::vector<std::unique_ptr<Event>> joined_;  // by stream
};

}  // namespace meshwright::cuda
