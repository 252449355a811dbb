#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "costmodel/price/cost_model.h"
#include "simulator/engine/engine_options.h"
#include "simulator/engine/link_sharing.h"
#include "simulator/engine/scene.h"

namespace meshwright {

inline constexpr std::uint32_t kNoTask = std::numeric_limits<std::uint32_t>::max();

// A task of any program, numbered through all of them. A copy is a transfer with one member.
struct ScoreTask {
  double work = 0;            // of a kernel: seconds alone
  std::uint32_t meeting = 0;  // of a transfer
  std::uint32_t first_wait = 0;
  std::uint32_t program = 0;
  std::uint16_t wait_count = 0;
  bool is_transfer = false;
  bool is_slowed = false;  // by collectives of its device
};

// What all transfers of one kind, group and size have in common.
struct ScoreTransfer {
  double work = 0;       // seconds alone
  double slow_down = 1;  // of kernels beside it
  PriceOrigin origin = PriceOrigin::Formula;
  std::uint32_t first_use = 0, use_count = 0;
};

struct ScoreMeeting {
  std::uint32_t members = 0;
  std::uint32_t transfer = 0;
};

// What the host waited for before it launched a task: the last receive before it in the list and
// the kernel before that. A receive that does not stand before the task is of the step before.
struct HostWait {
  std::uint32_t receive = kNoTask, kernel = kNoTask;
  bool is_of_step_before(std::uint32_t task) const { return receive >= task; }
};

struct ScoreLane {
  std::uint32_t program = 0;
  std::uint32_t first = 0, count = 0;  // of `lane_tasks`
};

// A scene with its prices, laid out for playing: arrays over all programs.
struct Score {
  std::vector<ScoreTask> tasks;
  std::vector<std::uint32_t> waits;  // tasks of the same step
  // Tasks of the step before that a task waits for: those of task t from carry_first[t] up to
  // carry_first[t + 1]. Empty where steps do not repeat.
  std::vector<std::uint32_t> carry_first, carry;
  // Kernels that the host of a program has launched with a task and all before it, by task. Empty
  // where launches take no time.
  std::vector<std::uint32_t> launched;
  std::vector<HostWait> host_waits;  // by task. Empty where hosts do not wait
  std::vector<ScoreTransfer> transfers;
  std::vector<FlowUse> uses;
  std::vector<ScoreMeeting> meetings;
  std::vector<ScoreLane> lanes;
  std::vector<std::uint32_t> lane_tasks;
  std::vector<std::uint32_t> program_first;  // task, and one past the last
  std::size_t links = 0;
  // What all tasks of all devices take alone, by where their prices come from: in whole
  // nanoseconds, so that the sums do not depend on the order of tasks.
  std::array<std::int64_t, kPriceOrigins> priced_ns{};

  std::span<const std::uint32_t> waits_of(const ScoreTask& task) const {
    return {waits.data() + task.first_wait, task.wait_count};
  }
  std::span<const std::uint32_t> carried_to(std::uint32_t task) const {
    if (carry_first.empty()) return {};
    return {carry.data() + carry_first[task], carry_first[task + 1] - carry_first[task]};
  }
  std::span<const FlowUse> uses_of(const ScoreTransfer& transfer) const {
    return {uses.data() + transfer.first_use, transfer.use_count};
  }
};

Score make_score(const Scene& scene, const CostModel& costs, const EngineOptions& options);

// Of what a transfer would send through a link, alone, the share that the link can carry, in
// kFullLink: `bytes` in `time`.
std::int64_t demand_of(double bytes, Seconds time, BytesPerSecond capacity);

}  // namespace meshwright
