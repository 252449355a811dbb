#include "executor/train.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "executor/cpu/cpu_device.h"
#include "executor/numerical_error.h"
#include "executor/thread_transport.h"

namespace meshwright {
namespace {

RunClock steady_clock() {
  const auto origin = std::chrono::steady_clock::now();
  return [origin] {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - origin;
    return Seconds(since.count());
  };
}

// What devices have to agree on: whether a step runs, and what it gave.
class Steps {
 public:
  Steps(std::span<const Program> programs, const StepSettings& settings, const RunOptions& options,
        const DataSource& data, std::stop_token stop, const StepProgress& progress)
      : programs_(programs),
        settings_(settings),
        options_(options),
        data_(data),
        stop_(stop),
        results_(programs.size(), progress) {}

  // The settings of a step, or none when it does not run: the first device that comes decides for
  // all.
  std::optional<StepSettings> start(std::int64_t step, const LossScaler& scaler) {
    const std::lock_guard lock(mutex_);
    if (static_cast<std::size_t>(step) == started_.size() && !ended_) {
      if (step == options_.steps || stop_.stop_requested()) {
        ended_ = true;
      } else {
        started_.push_back(settings_);
        started_.back().step = step;
        const std::int64_t labels = count_labels(data_, programs_[0].batch, step);
        started_.back().label_share = 1.0 / static_cast<double>(labels);
        scaler.set(started_.back());
      }
    }
    if (static_cast<std::size_t>(step) >= started_.size()) return std::nullopt;
    return started_[static_cast<std::size_t>(step)];
  }

  void finish(std::int64_t step, std::size_t device, StepRecord record) {
    const std::lock_guard lock(mutex_);
    results_.finish(step, device, std::move(record));
  }

  // Of the step that was started last.
  const StepSettings& settings_of_last() const { return started_.back(); }

  // When all devices are done.
  RunResult take_result() { return results_.take(); }

 private:
  std::span<const Program> programs_;
  const StepSettings& settings_;  // of all
  const RunOptions& options_;
  const DataSource& data_;
  std::stop_token stop_;
  std::mutex mutex_;  // guards what follows
  bool ended_ = false;
  std::vector<StepSettings> started_;  // by step
  StepResults results_;
};

void run_device(Worker& worker, std::size_t device, LossScaler scaler,
                const Initializer& initializer, Steps& steps) {
  worker.initialize(initializer);
  for (std::int64_t step = 0;; ++step) {
    const std::optional<StepSettings> settings = steps.start(step, scaler);
    if (!settings) return;
    StepRecord record = worker.run_step(*settings);
    scaler.take(record.skipped);
    steps.finish(step, device, std::move(record));
  }
}

// The cause before what it led to on other devices.
void rethrow_first(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr led_to;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailure&) {
      led_to = error;
    }
  }
  if (led_to) std::rethrow_exception(led_to);
}

bool is_numerical(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const NumericalError&) {
    return true;
  } catch (...) {
    return false;
  }
}

// The devices of a run, each of which is told when one of them fails: from when it is there on.
class Devices {
 public:
  explicit Devices(std::size_t count) : devices_(count) {}

  Device& set(std::size_t i, std::unique_ptr<Device> device) {
    const std::lock_guard lock(mutex_);
    devices_[i] = std::move(device);
    if (failure_) devices_[i]->give_up(*failure_);
    return *devices_[i];
  }
  Device& operator[](std::size_t i) { return *devices_[i]; }
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    failure_ = reason;
    for (const auto& device : devices_) {
      if (device) device->give_up(reason);
    }
  }
  // With all of them there, and none that runs.
  void forget_failure() {
    failure_.reset();
    for (const auto& device : devices_) device->forget_failure();
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Device>> devices_;
  std::optional<std::string> failure_;
};

// Runs `work` for each device in a thread of its own, and wakes the others when one throws. What
// each threw, by program.
std::vector<std::exception_ptr> run_on_threads(
    std::span<const Program> programs, Devices& devices,
    const std::function<void(std::size_t device, Transport& transport)>& work) {
  ThreadNetwork network;
  std::vector<std::unique_ptr<Transport>> transports;
  for (const Program& program : programs) transports.push_back(network.endpoint(program.device));
  std::vector<std::exception_ptr> errors(programs.size());
  std::vector<std::jthread> threads;
  for (std::size_t d = 0; d < programs.size(); ++d) {
    threads.emplace_back([&, d] {
      try {
        work(d, *transports[d]);
      } catch (...) {
        errors[d] = std::current_exception();
        const auto reason = "device " + std::to_string(programs[d].device.index()) + " failed";
        network.fail(reason);
        devices.fail(reason);
      }
    });
  }
  threads.clear();  // joins them
  return errors;
}

}  // namespace

RunResult run_threads(std::span<const Program> programs, const StepSettings& settings,
                      const RunOptions& options, const Initializer& initializer,
                      const DataSource& data, std::stop_token stop, const StepProgress& progress) {
  assert(!programs.empty());
  Steps steps(programs, settings, options, data, stop, progress);
  const DeviceMaker make = options.make_device ? options.make_device : cpu_devices(steady_clock());
  Devices devices(programs.size());
  std::vector<std::unique_ptr<Worker>> workers(programs.size());
  std::vector<DeviceId> ids;
  for (const Program& program : programs) ids.push_back(program.device);
  const auto errors = run_on_threads(programs, devices, [&](std::size_t d, Transport& transport) {
    agree(programs[d], options.identity, ids, transport);
    Device& device = devices.set(d, make(programs[d], transport));
    device.connect(transport);
    workers[d] = std::make_unique<Worker>(programs[d], device, data, options.worker);
    const LossScaler scaler(programs[d].precision, options.loss_scaling);
    run_device(*workers[d], d, scaler, initializer, steps);
  });
  const auto is_there = [](const auto& worker) { return worker != nullptr; };
  if (std::ranges::any_of(errors, is_numerical) && std::ranges::all_of(workers, is_there)) {
    const StepSettings last = steps.settings_of_last();
    devices.forget_failure();
    rethrow_first(run_on_threads(programs, devices, [&](std::size_t d, Transport& transport) {
      devices[d].connect(transport);
      workers[d]->explain_step(last);
    }));
  }
  rethrow_first(errors);
  RunResult result = steps.take_result();
  for (std::size_t d = programs.size(); d-- > 0;) {
    if (options.keep_weights) workers[d]->put_weights(result.weights);
    if (options.worker.keep_gradients) workers[d]->put_gradients(result.gradients);
  }
  return result;
}

}  // namespace meshwright
