#include "executor/cuda/stretch_graphs.h"

#include <cstring>

namespace meshwright::cuda {
namespace {

class CapturedGraph : public Owned<cudaGraph_t, cudaGraphDestroy> {
 public:
  explicit CapturedGraph(cudaStream_t origin) {
    check(cudaStreamEndCapture(origin, place()), "cudaStreamEndCapture");
  }
};

}  // namespace

void deliver(const std::vector<Fetched>& fetched) {
  for (const Fetched& one : fetched) std::memcpy(one.to.data(), one.from, one.to.size());
}

StretchMode StretchGraphs::begin(std::size_t stretch, const std::vector<cudaStream_t>& others) {
  number_ = stretch;
  open_ = true;
  if (stretch == stretches_.size()) {
    stretches_.push_back(std::make_unique<Kept>());
    return mode_ = StretchMode::Run;
  }
  others_ = others;
  current().next_piece = 0;
  if (current().graph) return mode_ = StretchMode::Repeat;
  // What the first time has taken is there.
  current().inputs.give_back();
  current().outputs.give_back();
  current().pieces.clear();
  current().fetched.clear();
  while (joined_.size() < others_.size()) joined_.push_back(std::make_unique<Event>());
  // Other threads may capture on devices of their own at the same time.
  check(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  mode_ = StretchMode::Keep;
  fork();
  return mode_;
}

void StretchGraphs::fork() {
  forked_.record(origin_);
  for (const cudaStream_t other : others_) {
    check(cudaStreamWaitEvent(other, forked_.get(), 0), "cudaStreamWaitEvent");
  }
}

void StretchGraphs::join() {
  for (std::size_t i = 0; i < others_.size(); ++i) {
    joined_[i]->record(others_[i]);
    check(cudaStreamWaitEvent(origin_, joined_[i]->get(), 0), "cudaStreamWaitEvent");
  }
}

void StretchGraphs::launch() {
  if (mode_ == StretchMode::Keep) {
    join();
    const CapturedGraph captured(origin_);
    current().graph = std::make_unique<GraphRun>(captured.get());
  }
  check(cudaGraphLaunch(current().graph->get(), origin_), "cudaGraphLaunch");
}

void StretchGraphs::end() {
  mode_ = StretchMode::Run;
  open_ = false;
}

void StretchGraphs::end_capture() {
  if (mode_ == StretchMode::Keep) {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(origin_, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();  // of what was given only in part
  }
  end();
}

void StretchGraphs::abandon() {
  end_capture();
  stretches_.clear();
}

std::byte* StretchGraphs::input(std::size_t bytes) {
  Kept& kept = current();
  if (mode_ == StretchMode::Repeat) return kept.pieces.at(kept.next_piece++);
  kept.pieces.push_back(kept.inputs.take(bytes));
  return kept.pieces.back();
}

std::byte* StretchGraphs::output(std::span<std::byte> to) {
  Kept& kept = current();
  std::byte* const staged = kept.outputs.take(to.size());
  kept.fetched.push_back({staged, to});
  return staged;
}

}  // namespace meshwright::cuda
