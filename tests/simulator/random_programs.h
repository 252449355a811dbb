#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/program/timeline.h"
#include "tests/flat_transfer.h"
#include "tests/simulator/program_builder.h"

namespace meshwright {

inline HandPipeline random_pipeline() {
  return {.stages = *rc::gen::inRange<std::size_t>(1, 7),
          .microbatches = *rc::gen::inRange(1, 13),
          .order = *rc::gen::element(HandOrder::OneForwardOneBackward, HandOrder::AllForwardFirst),
          .saved = 100,
          .sent = *rc::gen::inRange<std::int64_t>(1, 50)};
}

// Programs written in one order of all tasks, so that one pass over it gives every time.
struct RandomRun {
  std::vector<Program> programs;
  std::vector<std::vector<TaskSpan>> expected;
};

class RandomRunWriter {
 public:
  RandomRunWriter(std::size_t devices, const FixedCosts& costs)
      : costs_(costs), lane_free_(devices), spans_(devices) {
    for (std::size_t i = 0; i < devices; ++i) builders_.emplace_back(i);
  }

  void add_kernel() {
    const auto device = *rc::gen::inRange<std::size_t>(0, builders_.size());
    const Kernel kernel{.name = std::to_string(*rc::gen::inRange(0, 5))};
    const std::string lane = random_lane();
    const auto waits = random_waits(device);
    builders_[device].kernel(kernel, {}, waits, {}, lane);
    const Seconds start = ready(device, lane, waits);
    finish(device, lane, {start, start + costs_.kernels.at(kernel.name)});
  }

  void add_transfer() {
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < builders_.size(); ++i) {
      if (*rc::gen::arbitrary<bool>()) group.push_back(i);
    }
    if (group.empty()) return;
    const bool pair = group.size() == 2 && *rc::gen::arbitrary<bool>();
    Transfer transfer{.kind = pair ? TransferKind::Send : TransferKind::AllReduce,
                      .group = device_ids(group)};
    const auto count = *rc::gen::inRange<std::int64_t>(0, 100);
    Seconds start;
    std::vector<std::string> lanes;
    for (const std::size_t member : group) {
      if (pair && member == group[1]) transfer.kind = TransferKind::Receive;
      lanes.push_back(random_lane());
      const auto waits = random_waits(member);
      builders_[member].transfer(flat(transfer, count), lanes.back(), {}, waits);
      start = std::max(start, ready(member, lanes.back(), waits));
    }
    const Seconds time = costs_.transfer(flat(transfer, count), Precision::FP32).time;
    for (std::size_t i = 0; i < group.size(); ++i)
      finish(group[i], lanes[i], {start, start + time});
  }

  void add_copy() {
    const auto device = *rc::gen::inRange<std::size_t>(0, builders_.size());
    const auto direction = *rc::gen::element(CopyDirection::ToHost, CopyDirection::FromHost);
    const auto count = *rc::gen::inRange<std::int64_t>(0, 100);
    ProgramBuilder& builder = builders_[device];
    const BufferId here = builder.buffer("here", count, Component::Activations);
    const BufferId away = builder.host_buffer("away", count);
    const bool out = direction == CopyDirection::ToHost;
    const auto waits = random_waits(device);
    builder.copy(direction, out ? here : away, out ? away : here, waits);
    const std::string lane(to_text(direction));
    const Seconds start = ready(device, lane, waits);
    const Seconds time =
        costs_.host_copy({direction, count}, Precision::FP32, DeviceId(device)).time;
    finish(device, lane, {start, start + time});
  }

  RandomRun result() {
    RandomRun run{.expected = spans_};
    for (ProgramBuilder& builder : builders_) run.programs.push_back(builder.program());
    return run;
  }

 private:
  static std::string random_lane() {
    return *rc::gen::element<std::string>("compute", "one", "other");
  }
  std::vector<TaskId> random_waits(std::size_t device) {
    std::vector<TaskId> waits;
    const std::size_t tasks = spans_[device].size();
    for (int i = *rc::gen::inRange(0, 3); i > 0 && tasks > 0; --i) {
      waits.emplace_back(*rc::gen::inRange<std::size_t>(0, tasks));
    }
    return waits;
  }
  Seconds ready(std::size_t device, const std::string& lane, const std::vector<TaskId>& waits) {
    Seconds time = lane_free_[device][lane];
    for (const TaskId wait : waits) time = std::max(time, spans_[device][wait.index()].finish);
    return time;
  }
  void finish(std::size_t device, const std::string& lane, TaskSpan span) {
    lane_free_[device][lane] = span.finish;
    spans_[device].push_back(span);
  }

  const FixedCosts& costs_;
  std::vector<ProgramBuilder> builders_;
  std::vector<std::map<std::string, Seconds>> lane_free_;
  std::vector<std::vector<TaskSpan>> spans_;
};

inline RandomRun random_run(const FixedCosts& costs) {
  RandomRunWriter writer(*rc::gen::inRange<std::size_t>(1, 5), costs);
  for (int i = *rc::gen::inRange(0, 40); i > 0; --i) {
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        writer.add_copy();
        break;
      case 1:
      case 2:
        writer.add_kernel();
        break;
      default:
        writer.add_transfer();
    }
  }
  return writer.result();
}

inline FixedCosts random_costs() {
  FixedCosts costs;
  for (int i = 0; i < 5; ++i) costs.kernels[std::to_string(i)] = Seconds(i * 0.1);
  costs.latency = Seconds(*rc::gen::inRange(0, 5) * 0.01);
  costs.bandwidth = BytesPerSecond(*rc::gen::inRange(1, 1000));
  costs.host_bandwidth = BytesPerSecond(*rc::gen::inRange(1, 1000));
  return costs;
}

}  // namespace meshwright
