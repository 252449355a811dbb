#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "executor/global_tensor.h"
#include "executor/worker.h"
#include "simulator/program/timeline.h"

namespace meshwright {

struct StepResult {
  double loss = 0;                      // the mean over the global batch
  std::optional<double> gradient_norm;  // before clipping; none where the step was skipped
  double loss_scale = 1;
  bool skipped = false;  // gradients overflowed, and weights are as before
  Seconds time;          // from the first device's start to the last one's finish
};

struct RunResult {
  std::vector<StepResult> steps;
  Timeline timeline;         // of the last step, measured
  std::vector<Bytes> peaks;  // by program
  std::vector<BesideMemory> beside;
  GlobalTensors weights;    // after the last step, if asked for
  GlobalTensors gradients;  // of the last step before clipping, if asked for
};

// Called after each step.
using StepProgress = std::function<void(std::int64_t, const StepResult&)>;

// What devices know after their steps, put together when all have finished one. Called by one
// thread at a time.
class StepResults {
 public:
  StepResults(std::size_t devices, const StepProgress& progress)
      : devices_(devices), progress_(progress) {}

  void finish(std::int64_t step, std::size_t device, StepRecord record);
  // When all devices are done.
  RunResult take() { return std::move(result_); }

 private:
  struct Unfinished {
    std::vector<StepRecord> records;  // by device
    std::size_t devices = 0;
  };
  void conclude(std::int64_t step);

  std::size_t devices_;
  const StepProgress& progress_;
  std::map<std::int64_t, Unfinished> unfinished_;  // by step; a device may be steps ahead
  RunResult result_;
};

}  // namespace meshwright
