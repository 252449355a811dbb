#include <algorithm>
#include <queue>

#include "simulator/engine/lane_state.h"
#include "simulator/engine/link_sharing.h"
#include "simulator/engine/play.h"

namespace meshwright {
namespace {

// Something that runs: a kernel in its lane or a transfer. `left` is what was left of its work, in
// seconds at full speed, at `since`; a finish is worked out anew only when the speed changes.
struct Activity {
  double start = 0, since = 0, left = 0;
  double slowness = 1;  // seconds for a second of work
  std::uint32_t version = 0;
  bool running = false;
  bool fresh = false;  // its finish has not been worked out yet
};

enum class EventKind : std::uint8_t { KernelEnds, TransferEnds, Launched };

struct Event {
  double time = 0;
  std::uint32_t index = 0;  // lane or meeting
  std::uint32_t version = 0;
  EventKind kind = EventKind::KernelEnds;

  friend bool operator>(const Event& a, const Event& b) { return a.time > b.time; }
};

class SharedPlay {
 public:
  SharedPlay(const Score& score, const EngineOptions& options)
      : score_(score),
        dispatch_(options.dispatch.value()),
        lanes_(score, options.repeat ? 2 : 1),
        sharing_(score.links),
        kernels_(score.lanes.size()),
        transfers_(score.meetings.size()),
        collectives_(score.program_first.size() - 1),
        slowness_(score.program_first.size() - 1, 1.0),
        computing_(score.program_first.size() - 1, kNoLane) {
    played_.steps.assign(options.repeat ? 2 : 1, std::vector<TaskSpan>(score.tasks.size()));
  }

  Played play() {
    for (LaneIndex lane = lanes_.count(); lane-- > 0;) resumed_.push_back(lane);
    resume();
    settle();
    while (!events_.empty()) {
      now_ = events_.top().time;
      // All that happens at one moment happens before anything is shared anew.
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        take(event);
        resume();
      }
      settle();
    }
    played_.block = lanes_.find_block();
    return std::move(played_);
  }

 private:
  void take(const Event& event) {
    switch (event.kind) {
      case EventKind::KernelEnds:
        if (is_current(kernels_[event.index], event)) end_kernel(event.index);
        break;
      case EventKind::TransferEnds:
        if (is_current(transfers_[event.index], event)) end_transfer(event.index);
        break;
      case EventKind::Launched:
        resumed_.push_back(event.index);
        break;
    }
  }
  static bool is_current(const Activity& activity, const Event& event) {
    return activity.running && activity.version == event.version;
  }

  void resume() {
    while (!resumed_.empty()) {
      const LaneIndex lane = resumed_.back();
      resumed_.pop_back();
      advance(lane);
    }
  }

  void advance(LaneIndex lane) {
    const auto see = [](std::uint32_t, std::uint32_t) {};
    while (lanes_.has_next(lane) && lanes_.waits_are_over(lane, see)) {
      const std::uint32_t task = lanes_.next_task(lane);
      if (dispatch_ > 0 && !is_launched(lane, task)) return;
      if (score_.tasks[task].is_transfer) {
        if (lanes_.arrive(lane)) start_transfer(score_.tasks[task].meeting);
        return;
      }
      if (score_.tasks[task].work > 0) return start_kernel(lane, task);
      set_span(lane, now_);
      lanes_.finish_next(lane, resumed_);
    }
  }

  // False: the lane goes on at a moment that is in the queue.
  bool is_launched(LaneIndex lane, std::uint32_t task) {
    const double time = launch_time(score_, played_, task, lanes_[lane].step, dispatch_);
    if (time <= now_) return true;
    events_.push({time, lane, 0, EventKind::Launched});
    return false;
  }

  void start_kernel(LaneIndex lane, std::uint32_t task) {
    const ScoreTask& entry = score_.tasks[task];
    Activity& kernel = kernels_[lane];
    kernel = {.start = now_,
              .since = now_,
              .left = entry.work,
              .version = kernel.version + 1,
              .running = true,
              .fresh = true};
    if (entry.is_slowed) computing_[entry.program] = lane;
    started_kernels_.push_back(lane);
  }

  void end_kernel(LaneIndex lane) {
    kernels_[lane].running = false;
    const ScoreTask& task = score_.tasks[lanes_.next_task(lane)];
    if (task.is_slowed) computing_[task.program] = kNoLane;
    set_span(lane, kernels_[lane].start);
    lanes_.finish_next(lane, resumed_);
    resumed_.push_back(lane);
  }

  void start_transfer(std::uint32_t meeting) {
    const ScoreTransfer& transfer = transfer_of(meeting);
    Activity& activity = transfers_[meeting];
    activity = {.start = now_,
                .since = now_,
                .left = transfer.work,
                .version = activity.version + 1,
                .running = true,
                .fresh = true};
    if (transfer.work == 0) return leave(meeting);
    if (transfer.use_count > 0) sharing_.start(meeting, score_.uses_of(transfer));
    if (transfer.slow_down > 1) count_collective(meeting, transfer.slow_down, true);
    started_transfers_.push_back(meeting);
  }

  void end_transfer(std::uint32_t meeting) {
    const ScoreTransfer& transfer = transfer_of(meeting);
    if (transfer.use_count > 0) sharing_.stop(meeting);
    if (transfer.slow_down > 1) count_collective(meeting, transfer.slow_down, false);
    leave(meeting);
  }

  void leave(std::uint32_t meeting) {
    transfers_[meeting].running = false;
    for (LaneIndex member = lanes_.leave(meeting); member != kNoLane;) {
      const LaneIndex next = lanes_[member].next_in_list;
      set_span(member, transfers_[meeting].start);
      lanes_.finish_next(member, resumed_);
      resumed_.push_back(member);
      member = next;
    }
  }

  void set_span(LaneIndex lane, double start) {
    played_.steps[lanes_[lane].step][lanes_.next_task(lane)] = {Seconds(start), Seconds(now_)};
  }

  // Devices with a collective under way compute slower; of several the one that slows most counts.
  void count_collective(std::uint32_t meeting, double slow_down, bool starts) {
    for (LaneIndex lane = lanes_.first_at(meeting); lane != kNoLane;
         lane = lanes_[lane].next_in_list) {
      const std::uint32_t program = score_.lanes[lane].program;
      auto& under_way = collectives_[program];
      if (starts) {
        under_way.push_back(slow_down);
      } else {
        under_way.erase(std::ranges::find(under_way, slow_down));
      }
      changed_programs_.push_back(program);
    }
  }

  // Speeds after everything that happens now, and with them when running things end.
  void settle() {
    for (const std::uint32_t program : changed_programs_) {
      const auto& under_way = collectives_[program];
      const double slowness = under_way.empty() ? 1.0 : *std::ranges::max_element(under_way);
      if (slowness == slowness_[program]) continue;
      slowness_[program] = slowness;
      const LaneIndex lane = computing_[program];
      if (lane != kNoLane && !kernels_[lane].fresh) {
        change_speed(kernels_[lane], slowness);
        schedule(kernels_[lane], lane, EventKind::KernelEnds);
      }
    }
    changed_programs_.clear();
    for (const LaneIndex lane : started_kernels_) {
      if (score_.tasks[lanes_.next_task(lane)].is_slowed) {
        kernels_[lane].slowness = slowness_[score_.lanes[lane].program];
      }
      schedule(kernels_[lane], lane, EventKind::KernelEnds);
    }
    started_kernels_.clear();
    settle_transfers();
  }

  void settle_transfers() {
    for (const std::uint32_t meeting : sharing_.settle()) {
      if (transfers_[meeting].fresh) continue;
      change_speed(transfers_[meeting], slowness_of(meeting));
      schedule(transfers_[meeting], meeting, EventKind::TransferEnds);
    }
    for (const std::uint32_t meeting : started_transfers_) {
      if (transfer_of(meeting).use_count > 0) transfers_[meeting].slowness = slowness_of(meeting);
      schedule(transfers_[meeting], meeting, EventKind::TransferEnds);
    }
    started_transfers_.clear();
  }

  double slowness_of(std::uint32_t meeting) const {
    return static_cast<double>(kFullRate) / static_cast<double>(sharing_.rate(meeting));
  }

  void change_speed(Activity& activity, double slowness) {
    activity.left = std::max(0.0, activity.left - (now_ - activity.since) / activity.slowness);
    activity.since = now_;
    activity.slowness = slowness;
    ++activity.version;
  }

  void schedule(Activity& activity, std::uint32_t index, EventKind kind) {
    activity.fresh = false;
    events_.push(
        {activity.since + activity.left * activity.slowness, index, activity.version, kind});
  }

  const ScoreTransfer& transfer_of(std::uint32_t meeting) const {
    return score_.transfers[score_.meetings[meeting].transfer];
  }

  const Score& score_;
  const double dispatch_;
  LaneStates lanes_;
  LinkSharing sharing_;
  std::vector<Activity> kernels_;                 // by lane
  std::vector<Activity> transfers_;               // by meeting
  std::vector<std::vector<double>> collectives_;  // by program: slow-downs by those under way
  std::vector<double> slowness_;                  // by program: of its kernels
  std::vector<LaneIndex> computing_;              // by program: the lane whose kernel is slowed
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::vector<LaneIndex> resumed_, started_kernels_;
  std::vector<std::uint32_t> started_transfers_, changed_programs_;
  Played played_;
};

}  // namespace

Played play_shared(const Score& score, const EngineOptions& options) {
  return SharedPlay(score, options).play();
}

}  // namespace meshwright
