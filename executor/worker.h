#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "executor/counted_rows.h"
#include "executor/data_source.h"
#include "executor/device.h"
#include "executor/device_buffers.h"
#include "executor/initial_weights.h"
#include "executor/step_settings.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// Where a device is, for others to read while it runs: what computes, and transfers that run beside
// it.
struct RunPlace {
  struct Side {
    std::atomic<std::size_t> task = 0;  // that it began last; the number of all: the step's end
    std::atomic<bool> busy = false;     // with that task
  };
  std::atomic<std::int64_t> step = 0;
  std::atomic<std::int64_t> begun = 0;  // tasks, of all steps
  std::array<Side, 2> sides;
};

struct WorkerOptions {
  // Memory that is not in use holds NaN, so that a read of it shows in the result; tests have it.
  // Only where lanes do not run beside each other.
  bool fill_freed = false;
  bool keep_gradients = false;  // those of the last step can be read
  // Transfers run in a thread of their own beside everything else: for devices whose lanes do not
  // by themselves.
  bool overlap = false;
  RunPlace* place = nullptr;  // where it is, if anybody wants to know; must outlive the worker
};

// What a device takes beside what is laid out for the program.
struct BesideMemory {
  Bytes planned;  // before the first step
  Bytes used;     // after a step
  friend bool operator==(const BesideMemory&, const BesideMemory&) = default;
};

// What one device knows after a step.
struct StepRecord {
  std::optional<double> loss;           // the mean over the global batch
  std::optional<double> gradient_norm;  // before clipping; none where the step was skipped
  double loss_scale = 1;
  bool skipped = false;     // gradients overflowed, and weights are as before
  DeviceTimeline timeline;  // in the clock's time
  Bytes peak;
  BesideMemory beside;
};

// Runs the program of one device in list order, in memory laid out before. Program, device and data
// must outlive it; a worker belongs to one thread.
class Worker {
 public:
  Worker(const Program& program, Device& device, const DataSource& data, WorkerOptions options);

  // Weights and their masters as the initializer has them; all other persistent buffers 0.
  void initialize(const Initializer& initializer);
  // Throws NumericalError, before weights change, if the loss is not finite, or the norm of all
  // gradients where no smaller loss scale may help.
  StepRecord run_step(const StepSettings& settings);
  // Runs again the step that gave such numbers, as far as the first kernel that made them out of
  // finite ones, and throws NumericalError that names it. Over a device that was connected anew:
  // the others are where the step was given up.
  [[noreturn]] void explain_step(const StepSettings& settings);

  // Adds what this device holds to whole tensors: of a weight its master, where it has one.
  void put_weights(GlobalTensors& tensors) const;
  void put_gradients(GlobalTensors& tensors) const;

 private:
  struct Sides;  // how far each of two threads is
  // What is held when a task begins or, `after`, is done; no task: when the step begins.
  struct HeldMemory {
    std::optional<std::size_t> task;
    bool after = false;
    ComponentBytes bytes;
  };

  // Adds the device, and when it was, to what a device throws that does no task.
  void name_errors(const std::string& when, const std::function<void()>& work) const;
  void write_weights(const Initializer& initializer);
  void prepare_kernels();
  void run_stretches(const StepSettings& settings, StepRecord& record);
  void repeat_task(std::size_t task, const StepSettings& settings, StepRecord& record);
  void run_overlapped(const StepSettings& settings, StepRecord& record);
  void run_side(bool beside, const StepSettings& settings, StepRecord& record, Sides& sides);
  void run_and_record(std::size_t task, const StepSettings& settings, StepRecord& record,
                      StretchMode mode);
  void run_task(const Task& task, const StepSettings& settings) const;
  void run_kernel(const Task& task, const StepSettings& settings) const;
  std::int64_t batch_row_of(const Task& task) const;
  void check_task(const Task& task, const StepSettings& settings) const;
  void check_loss(LaneId lane, const StepSettings& settings) const;
  void check_norm(LaneId lane, const StepSettings& settings) const;
  void check_loss_by(std::size_t end, const StepSettings& settings) const;
  void check_number(double number, std::string_view what, std::int64_t step) const;
  void find_cause(const Task& task, std::int64_t step) const;
  void start_lives(std::size_t task, StepRecord& record, StretchMode mode);
  void end_lives(std::size_t task, StretchMode mode);
  void use_memory(BufferId id, StepRecord& record);
  void free_memory(BufferId id);
  void take_times(StepRecord& record) const;

  const Program& program_;
  Device& device_;
  const DataSource& data_;
  WorkerOptions options_;
  DeviceBuffers buffers_;
  RowCounts row_counts_;
  bool watching_ = false;                            // looks at what every kernel writes
  std::vector<std::vector<BufferId>> born_, dying_;  // by task, buffers that do not persist
  std::vector<std::vector<std::size_t>> waits_;      // by task, for tasks of other lanes or sides
  std::vector<std::vector<BufferId>> kept_;  // by task, buffers to read after their last use
  std::vector<std::size_t> stretch_ends_;    // the tasks after the last ones of stretches
  Bytes beside_;                             // that the device had taken before the first step
  std::mutex mutex_;  // guards what follows, and the record of a step, where transfers overlap
  std::map<BufferId, std::vector<std::byte>> fetched_;  // of the kept buffers
  std::map<BufferId, std::vector<double>> values_;      // the same after the step
  double loss_scale_ = 1;                               // of the step they are of
  std::vector<HeldMemory> held_;                        // of the step
  ComponentBytes live_;
  Bytes live_on_host_;
};

}  // namespace meshwright
