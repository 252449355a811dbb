#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/price/cost_model.h"
#include "simulator/program/program.h"
#include "tests/flat_transfer.h"

namespace meshwright {

// Prices a test can see: kernels by their name, transfers by a latency and what a member sends.
class FixedCosts : public CostModel {
 public:
  std::map<std::string, Seconds> kernels;
  Seconds latency;
  std::optional<BytesPerSecond> bandwidth;  // none: bytes take no time
  std::optional<BytesPerSecond> host_bandwidth = {};

  Price kernel(const Kernel& kernel, Precision, DeviceId) const override {
    return {.time = kernels.at(kernel.name)};
  }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    const double bytes = bytes_sent(transfer, precision);
    return {.time = latency + Seconds(bandwidth ? bytes / bandwidth->value() : 0)};
  }
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId) const override {
    return {.time = bytes_of(copy, precision) / host_bandwidth.value()};
  }
};

inline std::vector<DeviceId> device_ids(const std::vector<std::size_t>& indices) {
  std::vector<DeviceId> ids;
  for (const std::size_t index : indices) ids.emplace_back(index);
  return ids;
}

// Writes the program of one device by hand, task by task.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::size_t device) {
    program_.device = DeviceId(device);
    program_.lanes = {"compute"};
  }

  // Of 4-byte numbers.
  BufferId buffer(std::string name, std::int64_t count, Component component,
                  bool persistent = false) {
    program_.buffers.push_back({.name = std::move(name),
                                .count = count,
                                .component = component,
                                .persistent = persistent});
    return BufferId(program_.buffers.size() - 1);
  }

  TaskId kernel(Kernel kernel, const std::vector<BufferId>& operands = {},
                const std::vector<TaskId>& waits = {}, std::optional<std::int32_t> microbatch = {},
                const std::string& lane = "compute") {
    program_.kernels.push_back(std::move(kernel));
    return add(TaskKind::Kernel, program_.kernels.size() - 1, lane, operands, waits, microbatch);
  }

  TaskId transfer(Transfer transfer, const std::string& lane,
                  const std::vector<BufferId>& operands = {}, const std::vector<TaskId>& waits = {},
                  std::optional<std::int32_t> microbatch = {}) {
    program_.transfers.push_back(std::move(transfer));
    return add(TaskKind::Transfer, program_.transfers.size() - 1, lane, operands, waits,
               microbatch);
  }

  BufferId host_buffer(std::string name, std::int64_t count) {
    const BufferId id = buffer(std::move(name), count, Component::Activations);
    program_.buffers.back().space = Space::Host;
    return id;
  }

  TaskId copy(CopyDirection direction, BufferId from, BufferId to,
              const std::vector<TaskId>& waits = {}) {
    program_.copies.push_back({direction, program_.buffers[from.index()].count});
    return add(TaskKind::Copy, program_.copies.size() - 1, std::string(to_text(direction)),
               {from, to}, waits, {});
  }

  Program& program() { return program_; }

 private:
  TaskId add(TaskKind kind, std::size_t what, const std::string& lane,
             const std::vector<BufferId>& operands, const std::vector<TaskId>& waits,
             std::optional<std::int32_t> microbatch) {
    auto found = std::ranges::find(program_.lanes, lane);
    if (found == program_.lanes.end()) found = program_.lanes.insert(found, lane);
    program_.tasks.push_back(
        {.kind = kind,
         .what = static_cast<std::uint32_t>(what),
         .lane = LaneId(static_cast<std::size_t>(found - program_.lanes.begin())),
         .microbatch = microbatch,
         .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
         .operand_count = static_cast<std::uint32_t>(operands.size()),
         .first_wait = static_cast<std::uint32_t>(program_.waits.size()),
         .wait_count = static_cast<std::uint32_t>(waits.size())});
    program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
    program_.waits.insert(program_.waits.end(), waits.begin(), waits.end());
    return TaskId(program_.tasks.size() - 1);
  }

  Program program_;
};

enum class HandOrder { OneForwardOneBackward, AllForwardFirst };

// A pipeline with one device a stage. Each stage has kernels "forward" and "backward" for every
// microbatch; sends and receives have lanes of their own.
struct HandPipeline {
  std::size_t stages = 1;
  std::int32_t microbatches = 1;
  HandOrder order = HandOrder::OneForwardOneBackward;
  std::int64_t saved = 0;  // elements a microbatch keeps from forward to backward
  std::int64_t sent = 0;   // elements that cross a cut
};

// Forward (true) and backward of microbatches, in the order stage `stage` runs them.
inline std::vector<std::pair<bool, std::int32_t>> order_of(const HandPipeline& pipeline,
                                                           std::size_t stage) {
  const auto later = static_cast<std::int32_t>(pipeline.stages - stage - 1);
  const std::int32_t ahead = pipeline.order == HandOrder::AllForwardFirst
                                 ? pipeline.microbatches
                                 : std::min(pipeline.microbatches, later);
  std::vector<std::pair<bool, std::int32_t>> order;
  for (std::int32_t m = 0; m < ahead; ++m) order.emplace_back(true, m);
  for (std::int32_t m = 0; m < pipeline.microbatches; ++m) {
    if (m + ahead < pipeline.microbatches) order.emplace_back(true, m + ahead);
    order.emplace_back(false, m);
  }
  return order;
}

inline Program stage_program(const HandPipeline& pipeline, std::size_t stage) {
  ProgramBuilder builder(stage);
  // The microbatch's tensor goes over the cut towards `to`.
  const auto transfer = [&](TransferKind kind, std::size_t to, BufferId buffer,
                            std::vector<TaskId> waits, std::int32_t m) {
    const bool sends = kind == TransferKind::Send;
    const std::size_t from = sends ? stage : to;
    return builder.transfer(flat({.kind = kind,
                                  .purpose = Purpose::Pipeline,
                                  .group = device_ids({from, sends ? to : stage})},
                                 pipeline.sent),
                            (sends ? "to " : "from ") + std::to_string(to), {buffer}, waits, m);
  };
  std::vector<BufferId> saved;
  for (std::int32_t m = 0; m < pipeline.microbatches; ++m) {
    saved.push_back(builder.buffer("saved", pipeline.saved, Component::Activations));
  }
  for (const auto& [forward, m] : order_of(pipeline, stage)) {
    const bool first = forward ? stage == 0 : stage + 1 == pipeline.stages;
    const bool last = forward ? stage + 1 == pipeline.stages : stage == 0;
    std::vector<BufferId> operands = {saved[static_cast<std::size_t>(m)]};
    std::vector<TaskId> waits;
    if (!first) {
      operands.push_back(builder.buffer("in", pipeline.sent, Component::Transfers));
      waits = {
          transfer(TransferKind::Receive, forward ? stage - 1 : stage + 1, operands.back(), {}, m)};
    }
    if (!last) operands.push_back(builder.buffer("out", pipeline.sent, Component::Transfers));
    const TaskId task = builder.kernel({.kind = KernelKind::Add,
                                        .phase = forward ? Phase::Forward : Phase::InputGradient,
                                        .name = forward ? "forward" : "backward"},
                                       operands, waits, m);
    if (!last) {
      transfer(TransferKind::Send, forward ? stage + 1 : stage - 1, operands.back(), {task}, m);
    }
  }
  return builder.program();
}

inline std::vector<Program> programs_of(const HandPipeline& pipeline) {
  std::vector<Program> programs;
  for (std::size_t stage = 0; stage < pipeline.stages; ++stage) {
    programs.push_back(stage_program(pipeline, stage));
  }
  return programs;
}

}  // namespace meshwright
