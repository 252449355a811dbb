#include "executor/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <thread>

#include "costmodel/base/input_error.h"
#include "executor/cpu/kernels.h"
#include "executor/finite.h"
#include "executor/memory_error.h"
#include "executor/numerical_error.h"
#include "executor/waits_across.h"
#include "executor/weight_shards.h"

namespace meshwright {
namespace {

std::unique_ptr<std::byte, decltype(&std::free)> allocate(Bytes size, DeviceId device) {
  const auto unit = static_cast<std::size_t>(kArenaAlignment.value());
  const auto bytes = std::max(unit, static_cast<std::size_t>(size.value()));
  std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(unit, bytes)), &std::free);
  if (memory == nullptr) {
    throw MemoryError(
        fmt::format("out of memory: device {} needs {}, which the system does not give",
                    device.index(), to_text(size)));
  }
  return memory;
}

using ByTask = std::vector<std::vector<BufferId>>;

// Buffers whose values are asked for after the step, by the last task that uses them: later their
// memory may hold something else.
ByTask kept_buffers(const Program& program, bool gradients) {
  std::vector<bool> wanted(program.buffers.size(), false);
  if (program.loss) wanted[program.loss->index()] = true;
  if (program.clip) wanted[program.clip->index()] = true;
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

template <class T>
std::vector<double> read_as(const std::byte* start, std::size_t count) {
  const T* numbers = reinterpret_cast<const T*>(start);
  return std::vector<double>(numbers, numbers + count);
}

}  // namespace

Worker::Worker(const Program& program, Transport& transport, const DataSource& data, Clock clock,
               WorkerOptions options)
    : program_(program),
      transport_(&transport),
      data_(data),
      clock_(std::move(clock)),
      options_(options),
      arena_(lay_out_arena(program)),
      host_arena_(lay_out_arena(program, Space::Host)),
      born_(program.tasks.size()),
      dying_(program.tasks.size()),
      waits_across_(options.overlap ? waits_across(program, arena_, host_arena_)
                                    : std::vector<std::optional<std::size_t>>()),
      kept_(kept_buffers(program, options.keep_gradients)),
      memory_(allocate(arena_.peak, program.device)),
      host_memory_(allocate(host_arena_.peak, program.device)) {
  if (!has_kernels(program.precision)) {
    throw std::logic_error(fmt::format("no kernels in {}", to_text(program.precision)));
  }
  const auto lives = lifetimes_of(program);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (!lives[b] || program.buffers[b].persistent) continue;
    born_[lives[b]->first].push_back(BufferId(b));
    dying_[lives[b]->last].push_back(BufferId(b));
  }
  const unsigned char unused = options.fill_freed ? 0xff : 0;
  std::memset(memory_.get(), unused, static_cast<std::size_t>(arena_.peak.value()));
  std::memset(host_memory_.get(), unused, static_cast<std::size_t>(host_arena_.peak.value()));
}

void Worker::initialize(const Initializer& initializer) {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].persistent) fill(BufferId(b), 0);
  }
  for (const WeightShard& shard : program_.weights) {
    const WeightValues values = initializer(shard.name, global_shape(shard));
    const std::int64_t count = program_.buffers[shard.weight.index()].count;
    for_each_element(shard, [&](std::int64_t local, std::int64_t global) {
      const std::int64_t at = local - shard.weight_first;
      if (at >= 0 && at < count) set_number(shard.weight, at, values(global));
    });
  }
}

StepRecord Worker::run_step(const StepSettings& settings) {
  StepRecord record{.timeline = {.device = program_.device}};
  if (options_.place != nullptr) options_.place->step = settings.step;
  live_ = {};
  live_on_host_ = {};
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (!program_.buffers[b].persistent) continue;
    use_memory(BufferId(b), record);
    if (BufferId(b) == program_.loss) fill(BufferId(b), 0);
  }
  record.timeline.memory.push_back({clock_(), live_});
  record.timeline.tasks.resize(program_.tasks.size());
  if (options_.overlap) {
    run_overlapped(settings, record);
  } else {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) run_and_record(t, settings, record);
  }
  assert(record.peak == arena_.peak);
  const auto kept = [&](std::optional<BufferId> id, std::size_t i) -> std::optional<double> {
    const auto values = id ? values_.find(*id) : values_.end();
    return values == values_.end() ? std::nullopt : std::optional(values->second[i]);
  };
  record.loss = kept(program_.loss, 0);
  record.gradient_norm = kept(program_.clip, 1);
  return record;
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
      if (waits_across_[t] && !sides.wait_for(!beside, *waits_across_[t])) return;
      if (sides.failed) return;
      run_and_record(t, settings, record);
      sides.finish(beside, t);
    }
  } catch (...) {
    if (sides.fail(std::current_exception()) && !beside) {
      transport_->give_up("this device failed");
    }
  }
}

void Worker::run_and_record(std::size_t task, const StepSettings& settings, StepRecord& record) {
  if (options_.place != nullptr) options_.place->task = task;
  start_lives(task, record);
  const Seconds start = clock_();
  run_task(program_.tasks[task], settings);
  record.timeline.tasks[task] = {start, clock_()};
  check_numbers(program_.tasks[task], settings.step);
  end_lives(task, record);
}

void Worker::start_lives(std::size_t task, StepRecord& record) {
  if (born_[task].empty()) return;
  const std::lock_guard lock(mutex_);
  for (const BufferId id : born_[task]) {
    use_memory(id, record);
    if (id == program_.loss) fill(id, 0);
  }
  record.timeline.memory.push_back({clock_(), live_});
}

void Worker::end_lives(std::size_t task, StepRecord& record) {
  if (kept_[task].empty() && dying_[task].empty()) return;
  const std::lock_guard lock(mutex_);
  for (const BufferId id : kept_[task]) values_[id] = numbers_in(id);
  if (dying_[task].empty()) return;
  for (const BufferId id : dying_[task]) {
    free_memory(id);
    if (options_.fill_freed) fill(id, 0xff);
  }
  record.timeline.memory.push_back({clock_(), live_});
}

void Worker::use_memory(BufferId id, StepRecord& record) {
  const Buffer& buffer = program_.buffers[id.index()];
  if (buffer.space == Space::Host) {
    live_on_host_ += bytes_of(buffer, program_.precision);
    record.timeline.host_peak = std::max(record.timeline.host_peak, live_on_host_);
    return;
  }
  live_[static_cast<std::size_t>(buffer.component)] += bytes_of(buffer, program_.precision);
  const Bytes end = *arena_.offsets[id.index()] + arena_bytes(buffer, program_.precision);
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
  if (task.kind == TaskKind::Copy) return copy(program_.copy(task), operands);
  std::vector<std::byte*> buffers;
  for (const BufferId id : operands) buffers.push_back(start_of(id));
  if (task.kind == TaskKind::Transfer) {
    const Transfer& transfer = program_.transfer(task);
    if (!transfer.rows) return transport_->run(transfer, program_.precision, buffers);
    buffers.pop_back();
    return transport_->run(counted(transfer, operands), program_.precision, buffers);
  }
  const Kernel& kernel = program_.kernel(task);
  const std::int64_t row =
      program_.batch.first_row + task.microbatch.value_or(0) * program_.batch.micro_batch;
  if (kernel.kind == KernelKind::Load) {
    return load(kernel, start_of(operands[0]), settings.step, row);
  }
  const auto is_counted = [](const Operand& operand) { return operand.counted; };
  if (std::ranges::none_of(kernel.operands, is_counted)) {
    return run_kernel({kernel, buffers, settings, row}, program_.precision);
  }
  const Kernel with_rows = counted(kernel, operands);
  run_kernel({with_rows, buffers, settings, row}, program_.precision);
}

std::vector<std::int64_t> Worker::counts_in(const Operand& operand, BufferId buffer) const {
  const auto* numbers = reinterpret_cast<const std::int32_t*>(start_of(buffer)) + operand.offset;
  const Places places(operand.sizes, operand.strides);
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < places.count(); ++i) counts.push_back(numbers[places[i]]);
  return counts;
}

void Worker::check_room(std::int64_t rows, const Operand& operand, BufferId buffer) const {
  const Buffer& entry = program_.buffers[buffer.index()];
  if (rows * operand.sizes.back() <= entry.count) return;
  throw std::logic_error(fmt::format("device {}: {} rows come for {}, which has room for {}",
                                     program_.device.index(), rows, entry.name.text(),
                                     entry.count / operand.sizes.back()));
}

Transfer Worker::counted(const Transfer& transfer, std::span<const BufferId> operands) const {
  const auto place = std::ranges::find(transfer.group, program_.device) - transfer.group.begin();
  Transfer known = with_counts(transfer, counts_in(transfer.rows->counts, operands[2]),
                               static_cast<std::size_t>(place));
  check_room(known.source->sizes[0], *known.source, operands[0]);
  check_room(known.target->sizes[0], *known.target, operands[1]);
  return known;
}

Kernel Worker::counted(const Kernel& kernel, std::span<const BufferId> operands) const {
  Kernel known = kernel;
  std::int64_t rows = 0;
  for (const std::int64_t count :
       counts_in(kernel.operands[*kernel.counts], operands[*kernel.counts])) {
    rows += count;
  }
  for (std::size_t i = 0; i < known.operands.size(); ++i) {
    if (!known.operands[i].counted) continue;
    known.operands[i].sizes[0] = rows;
    check_room(rows, known.operands[i], operands[i]);
  }
  return known;
}

void Worker::check_numbers(const Task& task, std::int64_t step) const {
  if (task.kind != TaskKind::Kernel) return;
  if (watching_) find_cause(task, step);
  const KernelKind kind = program_.kernel(task).kind;
  const auto check = [&](BufferId id, std::size_t i, std::string_view what) {
    const double number = numbers_in(id)[i];
    if (std::isfinite(number)) return;
    throw NumericalError(fmt::format("step {}, device {}: the {} is {}", step,
                                     program_.device.index(), what, number));
  };
  if (kind == KernelKind::Loss && program_.kernel(task).part == KernelPart::Forward) {
    check(*program_.loss, 0, "loss");
  }
  if (kind == KernelKind::ClipFactor) check(*program_.clip, 1, "norm of all gradients");
}

// Nothing to blame a kernel for if it was given such numbers.
void Worker::find_cause(const Task& task, std::int64_t step) const {
  const Kernel& kernel = program_.kernel(task);
  const auto operands = program_.operands_of(task);
  const auto finite = [&](bool written) {
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      const Operand& operand = kernel.operands[i];
      if (operand.written != written) continue;
      if (!is_finite(operand, start_of(operands[i]), program_.precision)) return false;
    }
    return true;
  };
  if (finite(true) || !finite(false)) return;
  throw NumericalError(fmt::format(
      "step {}, device {}: {} ({}, {}) gave numbers that are not finite from ones that are; the "
      "weights are those before the step. A smaller learning rate may help",
      step, program_.device.index(), kernel.name.empty() ? "a kernel" : printable(kernel.name),
      to_text(kernel.kind), to_text(kernel.part)));
}

void Worker::explain_step(const StepSettings& settings, Transport& transport) {
  transport_ = &transport;
  watching_ = true;
  for (const WeightShard& shard : program_.weights) {
    const auto values = numbers_in(shard.weight);
    for_each_element(shard, [&](std::int64_t local, std::int64_t) {
      const auto at = static_cast<std::size_t>(local - shard.weight_first);
      if (at >= values.size() || std::isfinite(values[at])) return;
      throw NumericalError(
          fmt::format("step {}, device {}: the weight {} is not finite when the step begins",
                      settings.step, program_.device.index(), printable(shard.name)));
    });
  }
  run_step(settings);
  throw std::logic_error("a step gave other numbers when it was run again");
}

void Worker::copy(const HostCopy& copy, std::span<const BufferId> operands) const {
  const Bytes size = bytes_of(copy, program_.precision);
  std::memcpy(start_of(operands[1]), start_of(operands[0]), static_cast<std::size_t>(size.value()));
}

void Worker::load(const Kernel& kernel, std::byte* buffer, std::int64_t step,
                  std::int64_t row) const {
  const Operand& y = kernel.operands[0];
  if (y.element != BufferElement::Index) {
    throw std::logic_error(fmt::format("the input {} does not hold indices", kernel.name));
  }
  const bool has_batch = y.sizes.size() > 1;
  const std::int64_t rows = has_batch ? y.sizes[0] : 1;
  const std::size_t first = has_batch ? 1 : 0;
  const Places places(std::span(y.sizes).subspan(first), std::span(y.strides).subspan(first));
  if (places.count() == 0) return;
  // A device may take a part of the row.
  const DimPlace& part = kernel.place.at(first);
  std::vector<std::int32_t> values(
      static_cast<std::size_t>(places.count() / y.sizes[first] * part.size));
  for (std::int64_t r = 0; r < rows; ++r) {
    data_.read_row(kernel.name, step, has_batch ? row + r : 0, values);
    std::int32_t* to =
        reinterpret_cast<std::int32_t*>(buffer) + y.offset + (has_batch ? r * y.strides[0] : 0);
    const std::int64_t inner = places.count() / y.sizes[first];  // of a place of the row
    std::int64_t i = 0;
    for (const ShardRange& range : part.ranges) {
      for (std::int64_t from = range.start * inner; from < (range.start + range.size) * inner;) {
        to[places[i++]] = values[static_cast<std::size_t>(from++)];
      }
    }
  }
}

void Worker::put_weights(GlobalTensors& tensors) const {
  std::map<BufferId, std::vector<double>> values;
  for (const WeightShard& shard : program_.weights) {
    std::vector<double>& buffer = values[shard.weight];
    if (buffer.empty()) buffer = numbers_in(shard.weight);
    put_shard(shard, {buffer, shard.weight_first}, nullptr, tensors);
  }
}

void Worker::put_gradients(GlobalTensors& tensors) const {
  std::map<BufferId, std::vector<bool>> final_ones;
  for (const WeightShard& shard : program_.weights) {
    if (!shard.gradient) continue;
    const auto values = values_.find(*shard.gradient);
    if (values == values_.end()) continue;
    std::vector<bool>& valid = final_ones[*shard.gradient];
    if (valid.empty()) valid = final_elements(program_, *shard.gradient);
    put_shard(shard, {values->second, shard.gradient_first}, &valid, tensors);
  }
}

std::byte* Worker::start_of(BufferId id) const {
  const bool host = program_.buffers[id.index()].space == Space::Host;
  const Arena& arena = host ? host_arena_ : arena_;
  return (host ? host_memory_ : memory_).get() + arena.offsets[id.index()]->value();
}

std::vector<double> Worker::numbers_in(BufferId id) const {
  const Buffer& buffer = program_.buffers[id.index()];
  const auto count = static_cast<std::size_t>(buffer.count);
  if (buffer.element == BufferElement::Index) return read_as<std::int32_t>(start_of(id), count);
  if (buffer.element == BufferElement::Double || program_.precision == Precision::FP64) {
    return read_as<double>(start_of(id), count);
  }
  return read_as<float>(start_of(id), count);
}

void Worker::set_number(BufferId id, std::int64_t index, double value) const {
  if (program_.precision == Precision::FP64) {
    reinterpret_cast<double*>(start_of(id))[index] = value;
  } else {
    reinterpret_cast<float*>(start_of(id))[index] = static_cast<float>(value);
  }
}

void Worker::fill(BufferId id, unsigned char byte) const {
  const Bytes size = bytes_of(program_.buffers[id.index()], program_.precision);
  std::memset(start_of(id), byte, static_cast<std::size_t>(size.value()));
}

}  // namespace meshwright
