#include "executor/process/run_device.h"

#include <fmt/format.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "executor/cpu/cpu_device.h"
#include "executor/host_memory.h"
#include "executor/numerical_error.h"
#include "executor/process/machine.h"
#include "executor/process/process_network.h"
#include "simulator/program/arena.h"
#include "simulator/report/trace_file.h"

namespace meshwright {
namespace {

// How long a task takes by itself where everything is much slower than anywhere: 1 GFLOP/s, and 10
// MB/s between processes.
Seconds longest_time(const Program& program, const Task& task) {
  if (task.kind == TaskKind::Kernel) {
    return Seconds(static_cast<double>(flops_of(program.kernel(task)).value()) * 1e-9);
  }
  if (task.kind != TaskKind::Transfer) return {};
  const Transfer& transfer = program.transfer(task);
  double bytes = 0;
  for (const auto& operand : {transfer.source, transfer.target}) {
    if (!operand) continue;
    bytes += static_cast<double>(element_count(*operand)) *
             static_cast<double>(bytes_per_element(operand->element, program.precision).value());
  }
  return Seconds(bytes * 1e-7 * static_cast<double>(transfer.group.size()));
}

std::string task_place(const Program& program, std::int64_t step, std::size_t task) {
  const TracedTask traced = traced_task(program, program.tasks[task], {});
  const bool named = traced.task != TaskKind::Kernel;  // "all_reduce gradients" says its kind
  return fmt::format("step {}, task {} of {} ({}{})", step, task, program.tasks.size(),
                     named ? "" : traced.kind + " ", printable(traced.name));
}

// Of a transfer beside computing that waits, only if nothing is computed.
Whereabouts whereabouts(const Program& program, const RunPlace& place) {
  const RunPlace::Side& side = place.sides[!place.sides[0].busy && place.sides[1].busy];
  Whereabouts found{.begun = place.begun};
  if (found.begun == 0) return found;
  const std::size_t task = side.task;
  if (task < program.tasks.size()) {
    found.text = task_place(program, place.step, task);
    found.waits = side.busy && program.tasks[task].kind == TaskKind::Transfer;
    found.longest = longest_time(program, program.tasks[task]);
    return found;
  }
  // Where a device does what it was given: all of it, also with others.
  found.text = fmt::format("the end of step {}", place.step.load());
  found.waits = true;
  for (const Task& all : program.tasks) found.longest += longest_time(program, all);
  return found;
}

// What the device takes of its machine's memory: all of it where it is a processor.
Bytes host_bytes(const Program& program, const RunOptions& options) {
  if (!options.make_device) return memory_needed({&program, 1});
  return lay_out_arena(program, Space::Host).peak;
}

// What the member calls while the run lasts.
class Watched {
 public:
  Watched(Member& member, std::function<Whereabouts()> place,
          std::function<void(const std::string&)> fail)
      : member_(member) {
    member_.tell_place(std::move(place));
    member_.on_call_off(std::move(fail));
  }
  ~Watched() {
    member_.on_call_off(nullptr);
    member_.tell_place(nullptr);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Member& member_;
};

class DeviceRun {
 public:
  DeviceRun(Member& member, const ProcessDevice& device, const StepSettings& settings,
            const RunOptions& options, const DataSource& data)
      : member_(member),
        device_(device),
        settings_(settings),
        options_(options),
        data_(data),
        scaler_(device.program.precision, options.loss_scaling),
        network_(member, device.devices, device.self, host_bytes(device.program, options),
                 device.machines),
        transport_(transport(0)) {
    options_.worker.place = &place_;
    if (!options_.make_device) {
      check_addresses({&device.program, 1});
      options_.worker.overlap = true;
      options_.make_device = cpu_devices(machine_clock);
    }
  }

  void run(const Initializer& initializer) {
    const Watched watched(
        member_, [&] { return whereabouts(device_.program, place_); },
        [&](const std::string& reason) { fail(reason); });
    member_.tell_device(device_.program.device);
    agree(device_.program, options_.identity, device_.devices, transport_);
    Device& runs_on = set(options_.make_device(device_.program, transport_));
    runs_on.connect(transport_);
    Worker worker(device_.program, runs_on, data_, options_.worker);
    try {
      worker.initialize(initializer);
      for (std::int64_t step = 0; step < options_.steps; ++step) run_step(worker, step);
      member_.finish();
    } catch (const NumericalError& error) {
      member_.ask_to_explain(error.what(), settings_.step);
      explain(worker, error.what());
      throw;
    } catch (const PeerFailure& failure) {
      explain(worker, failure.what());
      throw;
    }
  }

 private:
  MessageTransport transport(std::uint64_t attempt) {
    return {network_.links(), [&](const std::string& given) { return member_.exchange(given); },
            attempt};
  }

  Device& set(std::unique_ptr<Device> made) {
    const std::lock_guard lock(mutex_);
    runs_on_ = std::move(made);
    if (failure_) runs_on_->give_up(*failure_);
    return *runs_on_;
  }
  // By the thread that hears of it.
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    network_.fail(reason);
    failure_ = reason;
    if (runs_on_) runs_on_->give_up(reason);
  }

  void run_step(Worker& worker, std::int64_t step) {
    set_step(step);
    scaler_.set(settings_);
    const StepRecord record = worker.run_step(settings_);
    scaler_.take(record.skipped);
    member_.finish_step(step, record, step + 1 == options_.steps);
  }

  void set_step(std::int64_t step) {
    settings_.step = step;
    const std::int64_t labels = count_labels(data_, device_.program.batch, step);
    settings_.label_share = 1.0 / static_cast<double>(labels);
  }

  // Where the hub wants to know which kernel gave numbers that are not finite. Throws what that
  // finds.
  void explain(Worker& worker, const std::string& reason) {
    const auto step = member_.step_to_explain(reason);
    if (!step) return;
    {
      const std::lock_guard lock(mutex_);  // who told of the failure is done with it
      network_.forget_failure();
      failure_.reset();
      runs_on_->forget_failure();
    }
    set_step(*step);
    runs_on_->connect(again_.emplace(transport(1)));
    worker.explain_step(settings_);
  }

  Member& member_;
  const ProcessDevice& device_;
  StepSettings settings_;
  RunOptions options_;
  const DataSource& data_;
  LossScaler scaler_;
  RunPlace place_;
  ProcessNetwork network_;
  MessageTransport transport_;
  std::optional<MessageTransport> again_;  // to explain a step
  std::mutex mutex_;                       // guards what follows
  std::optional<std::string> failure_;
  std::unique_ptr<Device> runs_on_;
};

}  // namespace

void run_device(Member& member, const ProcessDevice& device, StepSettings settings,
                const RunOptions& options, const Initializer& initializer, const DataSource& data) {
  DeviceRun(member, device, settings, options, data).run(initializer);
}

}  // namespace meshwright
