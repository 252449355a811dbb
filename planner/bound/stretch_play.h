#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/price/link_use.h"
#include "planner/bound/block_bounds.h"
#include "planner/bound/max_plus.h"
#include "simulator/lowering/fragment.h"
#include "simulator/program/operand_use.h"

namespace meshwright {

// Collectives of a lane that follow each other and are looked at together.
inline constexpr std::size_t kSlowingWindow = 4;

// Tasks of a program that lie between two cuts of the model.
struct Stretch {
  std::size_t first = 0, end = 0;

  bool contains(std::size_t task) const { return first <= task && task < end; }
};

// From the first task of some ops to the last one, of a direction that starts at a task of the
// program.
inline Stretch stretch_of(const std::vector<FragmentTask>& direction, std::size_t first_task,
                          const OpRange& ops) {
  const auto is_own = [&](const FragmentTask& task) { return ops.contains(task.op); };
  const auto first = std::ranges::find_if(direction, is_own);
  const auto last = std::find_if(direction.rbegin(), direction.rend(), is_own);
  if (first == direction.end()) return {first_task, first_task};
  return {first_task + static_cast<std::size_t>(first - direction.begin()),
          first_task + static_cast<std::size_t>(direction.rend() - last)};
}

// The task of a direction that was the last to write, before a cut, what is read behind it.
inline std::optional<std::size_t> last_writer(const Program& program, const Stretch& direction,
                                              std::size_t cut) {
  std::vector<std::optional<std::size_t>> written(program.buffers.size());
  const auto each = [&](std::size_t t, bool reads, const auto& see) {
    const Task& task = program.tasks[t];
    const auto operands = program.operands_of(task);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const bool does = reads ? reads_operand(program, task, o) : writes_operand(program, task, o);
      if (does) see(written[operands[o].index()]);
    }
  };
  for (std::size_t t = direction.first; t < cut; ++t) {
    each(t, false, [&](auto& writer) { writer = t; });
  }
  std::optional<std::size_t> last;
  for (std::size_t t = cut; t < direction.end; ++t) {
    each(t, true, [&](auto& writer) {
      if (writer) last = std::max(last.value_or(0), *writer);
    });
    each(t, false, [&](auto& writer) { writer.reset(); });
  }
  return last;
}

// What goes into a stretch and out of it, of the direction that it lies in.
class Crossing {
 public:
  Crossing(const Program& program, const Stretch& direction, const Stretch& stretch)
      : program_(program),
        incoming_(last_writer(program, direction, stretch.first)),
        outgoing_(last_writer(program, direction, stretch.end)) {
    if (!incoming_) return;
    const Task& writer = program.tasks[*incoming_];
    const auto operands = program.operands_of(writer);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (writes_operand(program, writer, o)) comes_.push_back(operands[o]);
    }
  }

  // The tasks that were the last to write either.
  const std::optional<std::size_t>& incoming() const { return incoming_; }
  const std::optional<std::size_t>& outgoing() const { return outgoing_; }
  // Whether a task reads what comes in.
  bool is_read_by(std::size_t t) const {
    const Task& task = program_.tasks[t];
    const auto operands = program_.operands_of(task);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (reads_operand(program_, task, o) && std::ranges::count(comes_, operands[o]) > 0) {
        return true;
      }
    }
    return false;
  }

 private:
  const Program& program_;
  std::optional<std::size_t> incoming_, outgoing_;
  std::vector<BufferId> comes_;
};

// A program of all blocks, forward then backward, with prices.
class PricedProgram {
 public:
  PricedProgram(const Fragment& fragment, const Plan& plan, const Setting& setting,
                const LinkMap& links)
      : fragment_(fragment),
        program_(program_of(fragment, plan, plan.slots.front().mesh.devices().front())),
        dispatch_(setting.engine.dispatch.value()) {
    const double speed = speed_of(setting.cluster, program_.device);
    for (const Task& task : program_.tasks) {
      double seconds = 0, slows = 1;
      std::int64_t launches = 1;
      PortLoad ports;
      if (task.kind == TaskKind::Kernel) {
        const Price price =
            setting.costs->kernel(program_.kernel(task), plan.precision, program_.device);
        seconds = price.time.value() / speed;
        launches = price.launches;
      } else {
        const Transfer& transfer = program_.transfer(task);
        seconds = setting.costs->transfer(transfer, plan.precision).time.value();
        if (setting.engine.share_links) {
          ports = port_load(links, transfer, plan.precision, program_.device, Seconds(seconds));
        }
        if (!is_pair(transfer.kind)) {
          slows = links.inside_domain(transfer.group) ? setting.engine.slow_down_inside_node
                                                      : setting.engine.slow_down_across_nodes;
        }
      }
      seconds_.push_back(seconds);
      lost_.push_back(seconds * (1 - 1 / slows));
      launches_.push_back(launches);
      ports_.push_back(ports);
    }
  }

  const Program& program() const { return program_; }
  std::size_t forward_end() const { return fragment_.forward.size(); }
  const FragmentTask& fragment_task(std::size_t task) const {
    return task < forward_end() ? fragment_.forward[task]
                                : fragment_.backward[task - forward_end()];
  }
  double seconds(std::size_t task) const { return seconds_[task]; }
  // Of the compute lane, while it runs.
  double lost(std::size_t task) const { return lost_[task]; }
  std::int64_t launches(std::size_t task) const { return launches_[task]; }
  const PortLoad& ports(std::size_t task) const { return ports_[task]; }
  double dispatch() const { return dispatch_; }
  bool computes(std::size_t task) const { return program_.tasks[task].lane == LaneId(0); }

 private:
  const Fragment& fragment_;
  const Program program_;
  const double dispatch_;
  std::vector<double> seconds_, lost_;  // by task
  std::vector<std::int64_t> launches_;
  std::vector<PortLoad> ports_;
};

// A task starts no sooner than so long after another's finish.
struct LateAfter {
  std::size_t task = 0;
  double plus = 0;
};

// Plays stretches of a program from any state: what each task's finish is, as a row over the state
// at the start.
class StretchPlay {
 public:
  // `direction`: the tasks of the direction that the stretch lies in.
  StretchPlay(const PricedProgram& priced, const Stretch& direction, const Stretch& stretch)
      : priced_(priced),
        program_(priced.program()),
        crossing_(program_, direction, stretch),
        stretch_(stretch),
        lanes_(program_.lanes.size(), std::nullopt),
        finish_(stretch.end - stretch.first) {}

  BlockWork play() {
    BlockWork work;
    for (std::size_t t = stretch_.first; t < stretch_.end; ++t) {
      work.launches += priced_.launches(t);
      LaneTimes start = start_of(t, work.launches);
      if (priced_.computes(t)) {
        for (const LateAfter& late : slowed_starts(t)) raise(start, finish(late.task), late.plus);
        work.compute_s += priced_.seconds(t);
        kernels_.push_back(t);
      } else {
        work.transfer_s += priced_.seconds(t);
      }
      LaneTimes finish = never();
      raise(finish, start, priced_.seconds(t));
      finish_[t - stretch_.first] = finish;
      lanes_[program_.tasks[t].lane.index()] = t;
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (const auto index = state_of(lane)) work.advance.set_row(*index, lane_row(lane));
    }
    LaneTimes host = never();
    host[kHost] = static_cast<double>(work.launches) * priced_.dispatch();
    work.advance.set_row(kHost, host);
    work.advance.set_row(kBoundary, boundary_row());
    work.ports = waited_ports();
    return work;
  }

  const LaneTimes& finish(std::size_t task) const { return finish_[task - stretch_.first]; }
  bool contains(std::size_t task) const { return stretch_.contains(task); }
  const Stretch& stretch() const { return stretch_; }
  // Of what goes out: whether a task is the last to write it, and whether it is what comes in.
  bool writes_boundary(std::size_t task) const { return crossing_.outgoing() == task; }
  bool passes_boundary() const {
    return crossing_.outgoing() && crossing_.outgoing() == crossing_.incoming();
  }
  bool reads_boundary(std::size_t task) const { return crossing_.is_read_by(task); }

  // Collectives X_i .. X_j of one lane, the last of which kernel t waits for, run between the
  // finish of what X_i waits for and the start of t, and slow the kernels that run then: however
  // they overlap, the compute lane loses its share of their time.
  std::vector<LateAfter> slowed_starts(std::size_t t) const {
    std::vector<LateAfter> starts;
    for (const TaskId wait : program_.waits_of(program_.tasks[t])) {
      if (!contains(wait.index()) || priced_.lost(wait.index()) == 0) continue;
      add_windows(t, wait.index(), starts);
    }
    return starts;
  }

 private:
  // Lanes beyond those that a state has room for are left free: nothing waits for them then.
  static std::optional<std::size_t> state_of(std::size_t lane) {
    if (lane == 0) return kCompute;
    if (kFirstLane + lane - 1 >= kStateSize) return std::nullopt;
    return kFirstLane + lane - 1;
  }

  LaneTimes lane_row(std::size_t lane) const {
    if (lanes_[lane]) return finish(*lanes_[lane]);
    const auto index = state_of(lane);
    return index ? moment_of(*index) : never();
  }

  // Of transfers that are over when the last kernel is.
  PortLoad waited_ports() const {
    PortLoad ports;
    std::vector<bool> waited(lanes_.size(), false);  // by lane: for a task from here on
    std::vector<bool> is_waited_for(finish_.size(), false);
    for (const std::size_t k : kernels_) {
      for (const TaskId wait : program_.waits_of(program_.tasks[k])) {
        if (contains(wait.index())) is_waited_for[wait.index() - stretch_.first] = true;
      }
    }
    for (std::size_t t = stretch_.end; t-- > stretch_.first;) {
      const std::size_t lane = program_.tasks[t].lane.index();
      waited[lane] = waited[lane] || is_waited_for[t - stretch_.first];
      if (waited[lane]) ports.add(priced_.ports(t));
    }
    return ports;
  }

  LaneTimes boundary_row() const {
    const auto& outgoing = crossing_.outgoing();
    if (outgoing && contains(*outgoing)) return finish(*outgoing);
    return passes_boundary() ? moment_of(kBoundary) : never();
  }

  LaneTimes start_of(std::size_t t, std::int64_t launched) const {
    const Task& task = program_.tasks[t];
    LaneTimes start = lane_row(task.lane.index());
    for (const TaskId wait : program_.waits_of(task)) {
      if (contains(wait.index())) raise(start, finish(wait.index()));
    }
    if (reads_boundary(t)) raise(start, moment_of(kBoundary));
    // Computing has come to the stretch.
    if (task.waits_for_compute && kernels_.empty()) raise(start, moment_of(kCompute));
    if (priced_.dispatch() > 0) {
      raise(start, moment_of(kHost), static_cast<double>(launched) * priced_.dispatch());
    }
    return start;
  }

  void add_windows(std::size_t t, std::size_t last, std::vector<LateAfter>& starts) const {
    const LaneId lane = program_.tasks[last].lane;
    double lost = 0;
    std::size_t x = last;
    for (std::size_t size = 0; size < kSlowingWindow; ++size) {
      lost += priced_.lost(x);
      const auto before = task_before(x, lane);
      add_window(t, x, before, lost, starts);
      if (!before) return;
      x = *before;
    }
  }

  std::optional<std::size_t> task_before(std::size_t task, LaneId lane) const {
    for (std::size_t t = task; t-- > stretch_.first;) {
      if (program_.tasks[t].lane == lane) return t;
    }
    return std::nullopt;
  }

  void add_window(std::size_t t, std::size_t x, std::optional<std::size_t> before, double lost,
                  std::vector<LateAfter>& starts) const {
    // They run after the last kernel that X_i waits for, and after what is ahead of X_i in its
    // lane: kernels behind either, or that wait for it, do too.
    std::optional<std::size_t> after;
    for (const TaskId wait : program_.waits_of(program_.tasks[x])) {
      if (contains(wait.index()) && priced_.computes(wait.index())) after = wait.index();
    }
    if (after) starts.push_back({*after, work_between(*after + 1, t) + lost});
    if (!before) return;
    if (const auto reader = first_waiting(*before, t)) {
      starts.push_back({*before, work_between(*reader, t) + lost});
    }
  }

  // Of kernels from one on, before another.
  double work_between(std::size_t first, std::size_t t) const {
    double work = 0;
    for (const std::size_t k : kernels_) {
      if (k >= first && k < t) work += priced_.seconds(k);
    }
    return work;
  }

  // The first kernel that waits for a task.
  std::optional<std::size_t> first_waiting(std::size_t task, std::size_t end) const {
    for (const std::size_t k : kernels_) {
      if (k <= task || k >= end) continue;
      for (const TaskId wait : program_.waits_of(program_.tasks[k])) {
        if (wait.index() == task) return k;
      }
    }
    return std::nullopt;
  }

  const PricedProgram& priced_;
  const Program& program_;
  const Crossing crossing_;
  const Stretch stretch_;
  std::vector<std::optional<std::size_t>> lanes_;  // by lane: its last task so far
  std::vector<LaneTimes> finish_;                  // by task of the stretch
  std::vector<std::size_t> kernels_;               // of the compute lane, so far
};

}  // namespace meshwright
