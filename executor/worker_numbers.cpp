#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/input_error.h"
#include "executor/element_numbers.h"
#include "executor/finite.h"
#include "executor/loss_scaler.h"
#include "executor/numerical_error.h"
#include "executor/weight_shards.h"
#include "executor/worker.h"

// What a worker does about numbers that are not finite.
namespace meshwright {

void Worker::check_task(const Task& task, const StepSettings& settings) const {
  if (task.kind != TaskKind::Kernel) return;
  if (watching_) find_cause(task, settings.step);
  const Kernel& kernel = program_.kernel(task);
  const bool adds_loss = kernel.kind == KernelKind::Loss || kernel.kind == KernelKind::Balance;
  if (adds_loss && kernel.phase == Phase::Forward) {
    check_loss(task.lane, settings);
  }
  if (kernel.kind == KernelKind::ClipFactor) check_norm(task.lane, settings);
}

void Worker::check_loss(LaneId lane, const StepSettings& settings) const {
  if (program_.loss)
    check_number(buffers_.number_in(*program_.loss, 0, lane), "loss", settings.step);
}

// When the tasks before `end` are done. Where none after them uses the loss, its memory may hold
// something else already.
void Worker::check_loss_by(std::size_t end, const StepSettings& settings) const {
  if (!program_.loss) return;
  for (std::size_t t = 0; t < end; ++t) {
    if (std::ranges::find(kept_[t], *program_.loss) == kept_[t].end()) continue;
    const double loss =
        numbers_of(fetched_.at(*program_.loss), BufferElement::Double, program_.precision)[0];
    return check_number(loss, "loss", settings.step);
  }
  check_loss(LaneId(0), settings);
}

void Worker::check_norm(LaneId lane, const StepSettings& settings) const {
  const bool may_skip = program_.finite && settings.loss_scale > kLeastLossScale;
  if (may_skip) return;
  check_number(buffers_.number_in(*program_.clip, 1, lane), "norm of all gradients", settings.step);
}

void Worker::check_number(double number, std::string_view what, std::int64_t step) const {
  if (std::isfinite(number)) return;
  throw NumericalError(
      fmt::format("step {}, device {}: the {} is {}", step, program_.device.index(), what, number));
}

// Nothing to blame a kernel for if it was given such numbers.
void Worker::find_cause(const Task& task, std::int64_t step) const {
  const Kernel& kernel = program_.kernel(task);
  const auto operands = program_.operands_of(task);
  const auto finite = [&](bool written) {
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      const Operand& operand = kernel.operands[i];
      if (operand.written != written) continue;
      const auto bytes = buffers_.bytes_in(operands[i], task.lane);
      if (!is_finite(operand, bytes.data(), program_.precision)) return false;
    }
    return true;
  };
  if (finite(true) || !finite(false)) return;
  throw NumericalError(fmt::format(
      "step {}, device {}: {} ({}, {}) gave numbers that are not finite from ones that are; the "
      "weights are those before the step. A smaller learning rate may help",
      step, program_.device.index(), kernel.name.empty() ? "a kernel" : printable(kernel.name),
      to_text(kernel.kind), to_text(kernel.phase)));
}

void Worker::explain_step(const StepSettings& settings) {
  watching_ = true;
  for (const WeightShard& shard : program_.weights) {
    const auto values = buffers_.numbers_in(shard.weight, LaneId(0));
    for_each_element(shard, [&](std::int64_t local, std::int64_t) {
      const auto at = static_cast<std::size_t>(local - shard.weight_first);
      if (at >= values.size() || std::isfinite(values[at])) return;
      throw NumericalError(
          fmt::format("step {}, device {}: the weight {} is not finite when the step begins",
                      settings.step, program_.device.index(), printable(shard.name)));
    });
  }
  run_step(settings);
  // Where devices look at numbers only when a stretch ends, others may have changed their weights.
  throw NumericalError(
      fmt::format("step {}, device {}: numbers were not finite, but are when the step is run again",
                  settings.step, program_.device.index()));
}

}  // namespace meshwright
