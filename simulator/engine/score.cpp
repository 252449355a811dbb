#include "simulator/engine/score.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "simulator/engine/carried_waits.h"

namespace meshwright {
namespace {

class ScoreWriter {
 public:
  ScoreWriter(const Scene& scene, const CostModel& costs, const EngineOptions& options)
      : scene_(scene), costs_(costs), options_(options) {}

  Score write() {
    reserve();
    score_.links = scene_.links.size();
    for (std::size_t p = 0; p < scene_.programs.size(); ++p) add_program(p);
    score_.program_first.push_back(static_cast<std::uint32_t>(score_.tasks.size()));
    if (options_.repeat) add_carried();
    return std::move(score_);
  }

 private:
  void reserve() {
    std::size_t tasks = 0, waits = 0;
    for (const Program& program : scene_.programs) {
      tasks += program.tasks.size();
      waits += program.waits.size();
    }
    score_.tasks.reserve(tasks);
    score_.lane_tasks.resize(tasks);
    score_.waits.reserve(waits);
    for (const std::uint32_t members : scene_.meetings.members) {
      score_.meetings.push_back({.members = members});
    }
    priced_.resize(score_.meetings.size(), false);
  }

  void add_program(std::size_t p) {
    const Program& program = scene_.programs[p];
    const auto first = static_cast<std::uint32_t>(score_.tasks.size());
    score_.program_first.push_back(first);
    price_kernels(p);
    transfers_.assign(program.transfers.size(), std::nullopt);
    add_lanes(p);
    const auto& meetings = scene_.meetings.of_program[p];
    std::size_t next_meeting = 0;
    for (const Task& task : program.tasks) {
      ScoreTask& entry = score_.tasks.emplace_back();
      entry.program = static_cast<std::uint32_t>(p);
      entry.first_wait = static_cast<std::uint32_t>(score_.waits.size());
      entry.wait_count = static_cast<std::uint16_t>(task.wait_count);
      for (const TaskId wait : program.waits_of(task)) {
        score_.waits.push_back(first + static_cast<std::uint32_t>(wait.index()));
      }
      const auto index = static_cast<std::uint32_t>(score_.tasks.size() - 1);
      score_.lane_tasks[lane_end_[task.lane.index()]++] = index;
      if (task.kind == TaskKind::Kernel) {
        entry.work = kernel_work_[task.what];
        entry.is_slowed = task.lane == LaneId(0);
        continue;
      }
      entry.is_transfer = true;
      entry.meeting = meetings[next_meeting++];
      if (priced_[entry.meeting]) continue;
      priced_[entry.meeting] = true;
      score_.meetings[entry.meeting].transfer = transfer_of(p, task.what);
    }
  }

  void price_kernels(std::size_t p) {
    const Program& program = scene_.programs[p];
    kernel_work_.clear();
    for (const Kernel& kernel : program.kernels) {
      const Price price = costs_.kernel(kernel, program.precision, program.device);
      kernel_work_.push_back(price.time.value() / scene_.speeds[p]);
    }
  }

  void add_lanes(std::size_t p) {
    const Program& program = scene_.programs[p];
    std::vector<std::uint32_t> counts(program.lanes.size());
    for (const Task& task : program.tasks) ++counts[task.lane.index()];
    auto first = static_cast<std::uint32_t>(score_.tasks.size());
    lane_end_.clear();
    for (const std::uint32_t count : counts) {
      score_.lanes.push_back({static_cast<std::uint32_t>(p), first, count});
      lane_end_.push_back(first);
      first += count;
    }
  }

  std::uint32_t transfer_of(std::size_t p, std::uint32_t what) {
    auto& known = transfers_[what];
    if (known) return *known;
    const Program& program = scene_.programs[p];
    const Transfer& transfer = program.transfers[what];
    const Seconds time = costs_.transfer(transfer, program.precision).time;
    ScoreTransfer entry{.work = time.value(),
                        .first_use = static_cast<std::uint32_t>(score_.uses.size())};
    const bool pair = transfer.kind == TransferKind::Send || transfer.kind == TransferKind::Receive;
    if (!pair && !scene_.inside_node.empty()) {
      entry.slow_down = scene_.inside_node[p][what] ? options_.slow_down_inside_node
                                                    : options_.slow_down_across_nodes;
    }
    if (options_.share_links && time > Seconds(0)) add_uses(p, what, time);
    entry.use_count = static_cast<std::uint32_t>(score_.uses.size()) - entry.first_use;
    known = static_cast<std::uint32_t>(score_.transfers.size());
    score_.transfers.push_back(entry);
    return *known;
  }

  void add_uses(std::size_t p, std::uint32_t what, Seconds time) {
    const Program& program = scene_.programs[p];
    const double sent = bytes_sent(program.transfers[what], program.precision);
    for (const SceneUse& use : scene_.uses[p][what]) {
      const std::int64_t demand = demand_of(sent * use.share, time, scene_.links[use.link]);
      if (demand > 0) score_.uses.push_back({use.link, demand * use.multiplicity});
    }
  }

  void add_carried() {
    for (std::size_t p = 0; p < scene_.programs.size(); ++p) {
      const std::uint32_t first = score_.program_first[p];
      const CarriedWaits carried = carried_waits(scene_.programs[p]);
      for (std::size_t t = 0; t < scene_.programs[p].tasks.size(); ++t) {
        score_.carry_first.push_back(static_cast<std::uint32_t>(score_.carry.size()));
        for (const TaskId wait : carried.of(t)) {
          score_.carry.push_back(first + static_cast<std::uint32_t>(wait.index()));
        }
      }
    }
    score_.carry_first.push_back(static_cast<std::uint32_t>(score_.carry.size()));
  }

  const Scene& scene_;
  const CostModel& costs_;
  const EngineOptions& options_;
  Score score_;
  std::vector<bool> priced_;  // by meeting
  // Of the program at hand.
  std::vector<double> kernel_work_;
  std::vector<std::optional<std::uint32_t>> transfers_;
  std::vector<std::uint32_t> lane_end_;
};

}  // namespace

std::int64_t demand_of(double bytes, Seconds time, BytesPerSecond capacity) {
  assert(time > Seconds(0));
  const double share = bytes / (capacity.value() * time.value());
  // A price may be better than what is known of the links; a transfer alone is not slowed by them.
  return std::llround(std::min(share, 1.0) * static_cast<double>(kFullLink));
}

Score make_score(const Scene& scene, const CostModel& costs, const EngineOptions& options) {
  return ScoreWriter(scene, costs, options).write();
}

}  // namespace meshwright
