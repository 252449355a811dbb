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
    add_origins();
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
    copies_.assign(program.copies.size(), std::nullopt);
    add_lanes(p);
    if (hosts_wait()) find_host_waits(program, first);
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
      if (launches_take_time()) add_launches(task, index == first);
      if (hosts_wait()) add_host_waits(entry, index);
      score_.lane_tasks[lane_end_[task.lane.index()]++] = index;
      if (task.kind == TaskKind::Kernel) {
        entry.work = kernel_work_[task.what];
        add_priced(kernel_origins_[task.what], entry.work, p);
        entry.is_slowed = task.lane == LaneId(0);
        continue;
      }
      entry.is_transfer = true;
      if (task.kind == TaskKind::Copy) {
        entry.meeting = static_cast<std::uint32_t>(score_.meetings.size());
        score_.meetings.push_back({.members = 1, .transfer = copy_of(p, task.what)});
        continue;
      }
      entry.meeting = meetings[next_meeting++];
      if (priced_[entry.meeting]) continue;
      priced_[entry.meeting] = true;
      score_.meetings[entry.meeting].transfer = transfer_of(p, task.what);
    }
  }

  bool launches_take_time() const { return options_.dispatch > Seconds(0); }
  bool hosts_wait() const { return options_.host_waits && launches_take_time(); }

  void add_launches(const Task& task, bool is_first) {
    const std::uint32_t own = task.kind == TaskKind::Kernel ? kernel_launches_[task.what] : 1;
    score_.launched.push_back(own + (is_first ? 0 : score_.launched.back()));
  }

  void find_host_waits(const Program& program, std::uint32_t first) {
    HostWait wait;
    const auto pass = [&](const auto& see) {
      std::uint32_t kernel = kNoTask;
      for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
        const Task& task = program.tasks[t];
        see();
        if (task.lane == LaneId(0)) kernel = first + t;
        const bool receives = task.kind == TaskKind::Transfer &&
                              program.transfer(task).kind == TransferKind::Receive &&
                              program.transfer(task).purpose == Purpose::Pipeline;
        if (receives) wait = {.receive = first + t, .kernel = kernel};
      }
    };
    pass([] {});  // the last of a step, which the first tasks of the next wait for
    pass([&] { score_.host_waits.push_back(wait); });
  }

  // Tasks that a host launches later wait for what it waits for.
  void add_host_waits(ScoreTask& entry, std::uint32_t index) {
    const HostWait& wait = score_.host_waits[index];
    if (wait.receive == kNoTask || wait.is_of_step_before(index)) return;
    for (const std::uint32_t task : {wait.receive, wait.kernel}) {
      if (task == kNoTask) continue;
      score_.waits.push_back(task);
      ++entry.wait_count;
    }
  }

  void price_kernels(std::size_t p) {
    const Program& program = scene_.programs[p];
    kernel_work_.clear();
    kernel_launches_.clear();
    kernel_origins_.clear();
    for (const Kernel& kernel : program.kernels) {
      const Price price = costs_.kernel(kernel, program.precision, program.device);
      kernel_work_.push_back(price.time.value() / scene_.speeds[p]);
      kernel_launches_.push_back(static_cast<std::uint32_t>(price.launches));
      kernel_origins_.push_back(price.origin);
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
    double slow_down = 1;
    if (!is_pair(transfer.kind) && !scene_.inside_node.empty()) {
      slow_down = scene_.inside_node[p][what] ? options_.slow_down_inside_node
                                              : options_.slow_down_across_nodes;
    }
    std::span<const SceneUse> uses;
    if (options_.share_links) uses = scene_.uses[p][what];
    known = add_transfer(costs_.transfer(transfer, program.precision),
                         bytes_sent(transfer, program.precision), slow_down, uses);
    return *known;
  }

  // Copies are made by engines of their own: kernels beside them are not slowed, an assumption.
  std::uint32_t copy_of(std::size_t p, std::uint32_t what) {
    auto& known = copies_[what];
    if (known) return *known;
    const Program& program = scene_.programs[p];
    const HostCopy& copy = program.copies[what];
    std::span<const SceneUse> uses;
    if (options_.share_links && !scene_.copy_uses.empty()) {
      uses = scene_.copy_uses[p][static_cast<std::size_t>(copy.direction)];
    }
    known = add_transfer(costs_.host_copy(copy, program.precision, program.device),
                         static_cast<double>(expected_bytes_of(copy, program.precision).value()), 1,
                         uses);
    return *known;
  }

  std::uint32_t add_transfer(const Price& price, double sent, double slow_down,
                             std::span<const SceneUse> uses) {
    const Seconds time = price.time;
    ScoreTransfer entry{.work = time.value(),
                        .slow_down = slow_down,
                        .origin = price.origin,
                        .first_use = static_cast<std::uint32_t>(score_.uses.size())};
    for (const SceneUse& use : uses) {
      if (time == Seconds(0)) break;
      const std::int64_t demand = demand_of(sent * use.share, time, scene_.links[use.link]);
      if (demand > 0) score_.uses.push_back({use.link, demand * use.multiplicity});
    }
    entry.use_count = static_cast<std::uint32_t>(score_.uses.size()) - entry.first_use;
    score_.transfers.push_back(entry);
    return static_cast<std::uint32_t>(score_.transfers.size() - 1);
  }

  void add_priced(PriceOrigin origin, double seconds, std::size_t p) {
    score_.priced_ns[static_cast<std::size_t>(origin)] +=
        std::llround(seconds * 1e9) * scene_.counts[p];
  }

  // Of transfers and copies: what is one transfer may be priced by a later program.
  void add_origins() {
    for (const ScoreTask& task : score_.tasks) {
      if (!task.is_transfer) continue;
      const ScoreTransfer& transfer = score_.transfers[score_.meetings[task.meeting].transfer];
      add_priced(transfer.origin, transfer.work, task.program);
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
        if (hosts_wait()) add_host_carry(first + static_cast<std::uint32_t>(t));
      }
    }
    score_.carry_first.push_back(static_cast<std::uint32_t>(score_.carry.size()));
  }

  void add_host_carry(std::uint32_t task) {
    const HostWait& wait = score_.host_waits[task];
    if (wait.receive == kNoTask || !wait.is_of_step_before(task)) return;
    score_.carry.push_back(wait.receive);
    if (wait.kernel != kNoTask) score_.carry.push_back(wait.kernel);
  }

  const Scene& scene_;
  const CostModel& costs_;
  const EngineOptions& options_;
  Score score_;
  std::vector<bool> priced_;  // by meeting
  // Of the program at hand.
  std::vector<double> kernel_work_;
  std::vector<std::uint32_t> kernel_launches_;
  std::vector<PriceOrigin> kernel_origins_;
  std::vector<std::optional<std::uint32_t>> transfers_, copies_;
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
