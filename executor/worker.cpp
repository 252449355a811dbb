#include "executor/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <thread>

#include "costmodel/base/input_error.h"
#include "executor/device_error.h"
#include "executor/element_numbers.h"
#include "executor/load_input.h"
#include "executor/waits_across.h"

namespace meshwright {
namespace {

// Says where a side is while it is there.
class BusySide {
 public:
  BusySide(RunPlace* place, bool beside, std::size_t task)
      : side_(place == nullptr ? nullptr : &place->sides[beside]) {
    if (side_ == nullptr) return;
    ++place->begun;
    side_->task = task;
    side_->busy = true;
  }
  ~BusySide() {
    if (side_ != nullptr) side_->busy = false;
  }
  BusySide(const BusySide&) = delete;
  BusySide& operator=(const BusySide&) = delete;

 private:
  RunPlace::Side* side_;
};

const LaneId kComputeLane(0);

using ByTask = std::vector<std::vector<BufferId>>;

// Buffers whose values are asked for after the step, by the last task that uses them: later their
// memory may hold something else.
ByTask kept_buffers(const Program& program, bool gradients) {
  std::vector<bool> wanted(program.buffers.size(), false);
  if (program.loss) wanted[program.loss->index()] = true;
  if (program.clip) wanted[program.clip->index()] = true;
  if (program.finite) wanted[program.finite->index()] = true;
  for (const WeightShard& shard : program.weights) {
    if (gradients && shard.gradient) wanted[shard.gradient->index()] = true;
  }
  ByTask kept(program.tasks.size());
  for (std::size_t t = program.tasks.size(); t-- > 0;) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      if (wanted[id.index()]) kept[t].push_back(id);
      wanted[id.index()] = false;
    }
  }
  return kept;
}

// Where the host looks at the loss and the norm of all gradients, before weights change.
std::vector<std::size_t> stretch_ends(const Program& program) {
  std::vector<std::size_t> ends;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (task.kind != TaskKind::Kernel) continue;
    if (program.kernel(task).kind == KernelKind::ClipFactor) ends.push_back(t + 1);
  }
  if (ends.empty() || ends.back() != program.tasks.size()) ends.push_back(program.tasks.size());
  return ends;
}

std::string task_text(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::Kernel: {
      const Kernel& kernel = program.kernel(task);
      return fmt::format("{} {}{}{}", to_text(kernel.kind), to_text(kernel.phase),
                         kernel.name.empty() ? "" : " ", printable(kernel.name));
    }
    case TaskKind::Transfer:
      return transfer_text(program.transfer(task));
    case TaskKind::Copy:
      return fmt::format("copy {}", to_text(program.copy(task).direction));
  }
  return "";
}

std::vector<std::byte*> starts_of(const DeviceBuffers& buffers,
                                  std::span<const BufferId> operands) {
  std::vector<std::byte*> starts;
  for (const BufferId id : operands) starts.push_back(buffers.start_of(id));
  return starts;
}

}  // namespace

Worker::Worker(const Program& program, Device& device, const DataSource& data,
               WorkerOptions options) try
    : program_(program),
      device_(device),
      data_(data),
      options_(options),
      buffers_(program, device, options.fill_freed ? 0xff : 0),
      row_counts_(program, device, buffers_),
      born_(program.tasks.size()),
      dying_(program.tasks.size()),
      waits_(waits_across(program, buffers_.arena(Space::Device), buffers_.arena(Space::Host),
                          options.overlap ? two_sides(program) : lane_sides(program))),
      kept_(kept_buffers(program, options.keep_gradients)),
      stretch_ends_(stretch_ends(program)) {
  const auto lives = lifetimes_of(program);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (!lives[b] || program.buffers[b].persistent) continue;
    born_[lives[b]->first].push_back(BufferId(b));
    dying_[lives[b]->last].push_back(BufferId(b));
  }
  for (const auto& buffers : kept_) {
    for (const BufferId id : buffers) fetched_[id].resize(buffers_.memory_of(id).size());
  }
  prepare_kernels();
  beside_ = device.beside();
} catch (const DeviceError& error) {
  throw DeviceError(
      fmt::format("device {}, before the first step: {}", program.device.index(), error.what()));
}

// Kernels whose rows are counted are known only when they run.
void Worker::prepare_kernels() {
  const StepSettings settings;
  for (const Task& task : program_.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    const Kernel& kernel = program_.kernel(task);
    if (kernel.kind == KernelKind::Load || kernel.counts) continue;
    const auto operands = program_.operands_of(task).first(kernel.operands.size());
    device_.prepare(task.lane,
                    {kernel, starts_of(buffers_, operands), settings, batch_row_of(task)});
  }
}

void Worker::name_errors(const std::string& when, const std::function<void()>& work) const {
  try {
    work();
  } catch (const DeviceError& error) {
    throw DeviceError(
        fmt::format("device {}, {}: {}", program_.device.index(), when, error.what()));
  }
}

StepRecord Worker::run_step(const StepSettings& settings) {
  StepRecord record{.loss_scale = settings.loss_scale, .timeline = {.device = program_.device}};
  loss_scale_ = settings.loss_scale;
  if (options_.place != nullptr) options_.place->step = settings.step;
  live_ = {};
  live_on_host_ = {};
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (!program_.buffers[b].persistent) continue;
    use_memory(BufferId(b), record);
    if (BufferId(b) != program_.loss) continue;
    name_errors(fmt::format("step {}", settings.step),
                [&] { buffers_.fill(BufferId(b), 0, kComputeLane); });
  }
  held_ = {{.task = {}, .bytes = live_}};
  if (options_.overlap) {
    run_overlapped(settings, record);
  } else {
    run_stretches(settings, record);
  }
  // What a lane was given last may fail only now.
  name_errors(fmt::format("step {}, at its end", settings.step), [&] {
    const BusySide busy(options_.place, false, program_.tasks.size());
    device_.finish();
  });
  take_times(record);
  record.beside = {beside_, device_.beside()};
  assert(record.peak == buffers_.arena(Space::Device).peak);
  for (const auto& [id, bytes] : fetched_) {
    values_[id] = numbers_of(bytes, program_.buffers[id.index()].element, program_.precision);
  }
  const auto kept = [&](std::optional<BufferId> id, std::size_t i) -> std::optional<double> {
    const auto values = id ? values_.find(*id) : values_.end();
    return values == values_.end() ? std::nullopt : std::optional(values->second[i]);
  };
  record.loss = kept(program_.loss, 0);
  record.skipped = kept(program_.finite, 0) == 0.0;
  if (!record.skipped) record.gradient_norm = kept(program_.clip, 1);
  return record;
}

void Worker::run_stretches(const StepSettings& settings, StepRecord& record) {
  for (std::size_t s = 0, task = 0; s < stretch_ends_.size(); ++s) {
    const std::size_t first = task, end = stretch_ends_[s];
    StretchMode mode = StretchMode::Run;
    if (!watching_) {
      name_errors(fmt::format("step {}, before task {}", settings.step, first),
                  [&] { mode = device_.begin_stretch(s, settings); });
    }
    for (; task < end; ++task) {
      mode == StretchMode::Repeat ? repeat_task(task, settings, record)
                                  : run_and_record(task, settings, record, mode);
    }
    if (mode == StretchMode::Run) continue;
    name_errors(fmt::format("step {}, tasks {} to {}", settings.step, first, end - 1),
                [&] { device_.end_stretch(); });
    if (s + 1 == stretch_ends_.size()) continue;
    check_loss_by(end, settings);
    check_norm(kComputeLane, settings);
  }
}

// What the device is told again of a task that it has kept.
void Worker::repeat_task(std::size_t task, const StepSettings& settings, StepRecord& record) {
  start_lives(task, record, StretchMode::Repeat);
  const Task& repeated = program_.tasks[task];
  if (repeated.kind == TaskKind::Kernel && program_.kernel(repeated).kind == KernelKind::Load) {
    run_kernel(repeated, settings);
  }
  end_lives(task, StretchMode::Repeat);
}

// A task is done when its side has come further than it.
struct Worker::Sides {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<std::size_t, 2> next{};  // by side, the task after the last that is done
  std::exception_ptr failure;         // of the side that failed first
  std::atomic<bool> failed = false;

  // False: the other side has failed.
  bool wait_for(bool side, std::size_t task) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return next[side] > task || failure; });
    return !failure;
  }
  void finish(bool side, std::size_t task) {
    const std::lock_guard lock(mutex);
    next[side] = task + 1;
    changed.notify_one();
  }
  bool fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    if (failure) return false;
    failure = std::move(error);
    failed = true;
    changed.notify_one();
    return true;
  }
};

void Worker::run_overlapped(const StepSettings& settings, StepRecord& record) {
  Sides sides;
  {
    const std::jthread transfers([&] { run_side(true, settings, record, sides); });
    run_side(false, settings, record, sides);
  }
  if (sides.failure) std::rethrow_exception(sides.failure);
}

// Each side runs its tasks in the order of the list, in which no task waits for a later one: so one
// of the sides can always go on, whatever other devices do.
void Worker::run_side(bool beside, const StepSettings& settings, StepRecord& record, Sides& sides) {
  try {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      if (runs_beside(program_.tasks[t]) != beside) continue;
      for (const std::size_t wait : waits_[t]) {
        if (!sides.wait_for(!beside, wait)) return;
      }
      if (sides.failed) return;
      run_and_record(t, settings, record, StretchMode::Run);
      sides.finish(beside, t);
    }
  } catch (...) {
    if (sides.fail(std::current_exception()) && !beside) {
      device_.give_up("this device failed");
    }
  }
}

void Worker::run_and_record(std::size_t task, const StepSettings& settings, StepRecord& record,
                            StretchMode mode) {
  const bool beside = options_.overlap && runs_beside(program_.tasks[task]);
  const BusySide busy(options_.place, beside, task);
  const LaneId lane = program_.tasks[task].lane;
  try {
    if (!options_.overlap) {
      for (const std::size_t wait : waits_[task]) device_.wait(lane, wait);
    }
    start_lives(task, record, mode);
    device_.begin(lane, task);
    run_task(program_.tasks[task], settings);
    device_.record(lane, task);
    if (mode == StretchMode::Run) check_task(program_.tasks[task], settings);
    end_lives(task, mode);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("device {}, step {}, task {} ({}): {}", program_.device.index(),
                                  settings.step, task, task_text(program_, program_.tasks[task]),
                                  error.what()));
  }
}

void Worker::start_lives(std::size_t task, StepRecord& record, StretchMode mode) {
  if (born_[task].empty()) return;
  const std::lock_guard lock(mutex_);
  for (const BufferId id : born_[task]) {
    use_memory(id, record);
    if (id == program_.loss && mode != StretchMode::Repeat)
      buffers_.fill(id, 0, program_.tasks[task].lane);
  }
  held_.push_back({task, false, live_});
}

void Worker::end_lives(std::size_t task, StretchMode mode) {
  if (kept_[task].empty() && dying_[task].empty()) return;
  const LaneId lane = program_.tasks[task].lane;
  const std::lock_guard lock(mutex_);
  if (mode != StretchMode::Repeat) {
    for (const BufferId id : kept_[task]) {
      device_.fetch(lane, buffers_.start_of(id), fetched_.at(id));
    }
  }
  if (dying_[task].empty()) return;
  for (const BufferId id : dying_[task]) {
    free_memory(id);
    if (options_.fill_freed) buffers_.fill(id, 0xff, lane);
  }
  held_.push_back({task, true, live_});
}

// Lanes run beside each other, so memory that is taken or freed later in the list may be so
// earlier: it is then said to be so with what stands before it.
void Worker::take_times(StepRecord& record) const {
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    record.timeline.tasks.push_back(device_.span(t));
  }
  std::optional<Seconds> last;
  for (const HeldMemory& held : held_) {
    if (!held.task && record.timeline.tasks.empty()) continue;
    const TaskSpan& span = record.timeline.tasks[held.task.value_or(0)];
    const Seconds time = held.after ? span.finish : span.start;
    last = last ? std::max(*last, time) : time;
    record.timeline.memory.push_back({*last, held.bytes});
  }
}

void Worker::use_memory(BufferId id, StepRecord& record) {
  const Buffer& buffer = program_.buffers[id.index()];
  if (buffer.space == Space::Host) {
    live_on_host_ += bytes_of(buffer, program_.precision);
    record.timeline.host_peak = std::max(record.timeline.host_peak, live_on_host_);
    return;
  }
  live_[static_cast<std::size_t>(buffer.component)] += bytes_of(buffer, program_.precision);
  const Bytes end =
      *buffers_.arena(Space::Device).offsets[id.index()] + arena_bytes(buffer, program_.precision);
  record.peak = std::max(record.peak, end);
}

void Worker::free_memory(BufferId id) {
  const Buffer& buffer = program_.buffers[id.index()];
  const bool host = buffer.space == Space::Host;
  (host ? live_on_host_ : live_[static_cast<std::size_t>(buffer.component)]) -=
      bytes_of(buffer, program_.precision);
}

void Worker::run_task(const Task& task, const StepSettings& settings) const {
  const auto operands = program_.operands_of(task);
  switch (task.kind) {
    case TaskKind::Kernel:
      return run_kernel(task, settings);
    case TaskKind::Copy: {
      const Bytes size = bytes_of(program_.copy(task), program_.precision);
      return device_.copy(
          task.lane, buffers_.memory_of(operands[0]).first(static_cast<std::size_t>(size.value())),
          buffers_.start_of(operands[1]));
    }
    case TaskKind::Transfer:
      break;
  }
  std::vector<std::byte*> starts = starts_of(buffers_, operands);
  const Transfer& transfer = program_.transfer(task);
  if (!transfer.rows) return device_.transfer(task.lane, transfer, starts);
  starts.pop_back();
  device_.transfer(task.lane, row_counts_.counted(task.lane, transfer, operands), starts);
}

std::int64_t Worker::batch_row_of(const Task& task) const {
  return program_.batch.first_row + task.microbatch.value_or(0) * program_.batch.micro_batch;
}

void Worker::run_kernel(const Task& task, const StepSettings& settings) const {
  auto operands = program_.operands_of(task);
  const std::int32_t* predicate = nullptr;
  if (task.has_predicate) {
    predicate = reinterpret_cast<const std::int32_t*>(buffers_.start_of(operands.back()));
    operands = operands.first(operands.size() - 1);
  }
  const Kernel& kernel = program_.kernel(task);
  const std::int64_t row = batch_row_of(task);
  if (kernel.kind == KernelKind::Load) {
    return load_input(device_, task.lane, data_, kernel, buffers_.start_of(operands[0]),
                      settings.step, row);
  }
  const std::vector<std::byte*> starts = starts_of(buffers_, operands);
  if (!kernel.counts) {
    return device_.launch(task.lane, {.kernel = kernel,
                                      .buffers = starts,
                                      .settings = settings,
                                      .batch_row = row,
                                      .predicate = predicate});
  }
  const auto counts = row_counts_.counts_of(task.lane, kernel, operands);
  const Kernel known = row_counts_.counted(kernel, counts, operands);
  device_.launch(task.lane, {known, starts, settings, row, counts, predicate});
}

}  // namespace meshwright
