#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "executor/data_source.h"
#include "executor/initial_weights.h"
#include "executor/step_settings.h"
#include "executor/transport.h"
#include "simulator/program/arena.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// Where a device is, for others to read while it runs.
struct RunPlace {
  std::atomic<std::int64_t> step = 0;
  std::atomic<std::size_t> task = 0;
};

struct WorkerOptions {
  // Memory that is not in use holds NaN, so that a read of it shows in the result; tests have it.
  bool fill_freed = false;
  bool keep_gradients = false;  // those of the last step can be read
  // Transfers run in a thread of their own beside everything else. Not with fill_freed.
  bool overlap = false;
  RunPlace* place = nullptr;  // where it is, if anybody wants to know; must outlive the worker
};

// What one device knows after a step.
struct StepRecord {
  std::optional<double> loss;           // the mean over the global batch
  std::optional<double> gradient_norm;  // before clipping
  DeviceTimeline timeline;              // in the clock's time
  Bytes peak;
};

// Runs the program of one device in list order, in memory laid out before. Program, transport and
// data must outlive it; a worker belongs to one thread.
class Worker {
 public:
  using Clock = std::function<Seconds()>;

  Worker(const Program& program, Transport& transport, const DataSource& data, Clock clock,
         WorkerOptions options);

  // Weights as the initializer has them; all other persistent buffers 0.
  void initialize(const Initializer& initializer);
  // Throws NumericalError, before weights change, if the loss or the norm of all gradients is not
  // finite.
  StepRecord run_step(const StepSettings& settings);
  // Runs again the step that gave such numbers, as far as the first kernel that made them out of
  // finite ones, and throws NumericalError that names it. Over a new transport: the other one stays
  // where the step was given up.
  [[noreturn]] void explain_step(const StepSettings& settings, Transport& transport);

  // Adds what this device holds to whole tensors.
  void put_weights(GlobalTensors& tensors) const;
  void put_gradients(GlobalTensors& tensors) const;

 private:
  struct Sides;  // how far each of two threads is

  std::byte* start_of(BufferId id) const;
  std::vector<double> numbers_in(BufferId id) const;
  void set_number(BufferId id, std::int64_t index, double value) const;
  void fill(BufferId id, unsigned char byte) const;
  void run_overlapped(const StepSettings& settings, StepRecord& record);
  void run_side(bool beside, const StepSettings& settings, StepRecord& record, Sides& sides);
  void run_and_record(std::size_t task, const StepSettings& settings, StepRecord& record);
  void run_task(const Task& task, const StepSettings& settings) const;
  // What counts rows, row-major.
  std::vector<std::int64_t> counts_in(const Operand& operand, BufferId buffer) const;
  Transfer counted(const Transfer& transfer, std::span<const BufferId> operands) const;
  Kernel counted(const Kernel& kernel, std::span<const BufferId> operands) const;
  void check_room(std::int64_t rows, const Operand& operand, BufferId buffer) const;
  void check_numbers(const Task& task, std::int64_t step) const;
  void find_cause(const Task& task, std::int64_t step) const;
  void copy(const HostCopy& copy, std::span<const BufferId> operands) const;
  void load(const Kernel& kernel, std::byte* buffer, std::int64_t step, std::int64_t row) const;
  void start_lives(std::size_t task, StepRecord& record);
  void end_lives(std::size_t task, StepRecord& record);
  void use_memory(BufferId id, StepRecord& record);
  void free_memory(BufferId id);

  const Program& program_;
  Transport* transport_;
  const DataSource& data_;
  Clock clock_;
  WorkerOptions options_;
  bool watching_ = false;  // looks at what every kernel writes
  Arena arena_, host_arena_;
  std::vector<std::vector<BufferId>> born_, dying_;       // by task, buffers that do not persist
  std::vector<std::optional<std::size_t>> waits_across_;  // by task, where transfers overlap
  std::vector<std::vector<BufferId>> kept_;  // by task, buffers to read after their last use
  std::unique_ptr<std::byte, decltype(&std::free)> memory_, host_memory_;
  std::mutex mutex_;  // guards what follows, and the record of a step, where transfers overlap
  std::map<BufferId, std::vector<double>> values_;  // of the kept buffers
  ComponentBytes live_;
  Bytes live_on_host_;
};

}  // namespace meshwright
