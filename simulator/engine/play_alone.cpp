#include <algorithm>

#include "simulator/engine/lane_state.h"
#include "simulator/engine/play.h"

namespace meshwright {
namespace {

class AlonePlay {
 public:
  AlonePlay(const Score& score, const EngineOptions& options)
      : score_(score),
        dispatch_(options.dispatch.value()),
        lanes_(score, options.repeat ? 2 : 1),
        ready_(score.lanes.size()),
        meeting_ready_(score.meetings.size()) {
    played_.steps.assign(options.repeat ? 2 : 1, std::vector<TaskSpan>(score.tasks.size()));
  }

  Played play() {
    for (LaneIndex lane = 0; lane < lanes_.count(); ++lane) {
      advance(lane);
      while (!resumed_.empty()) {
        const LaneIndex next = resumed_.back();
        resumed_.pop_back();
        advance(next);
      }
    }
    played_.block = lanes_.find_block();
    return std::move(played_);
  }

 private:
  void advance(LaneIndex lane) {
    while (lanes_.has_next(lane)) {
      double& ready = ready_[lane];
      const auto see = [&](std::uint32_t task, std::uint32_t step) {
        ready = std::max(ready, played_.steps[step][task].finish.value());
      };
      if (!lanes_.waits_are_over(lane, see)) return;
      const std::uint32_t task = lanes_.next_task(lane);
      ready = std::max(ready, launch(lane, task));
      if (score_.tasks[task].is_transfer) return meet(lane, task);
      finish(lane, task, ready, ready + score_.tasks[task].work);
    }
  }

  double launch(LaneIndex lane, std::uint32_t task) {
    if (dispatch_ == 0) return 0;
    return launch_time(score_, played_, task, lanes_[lane].step, dispatch_);
  }

  void meet(LaneIndex lane, std::uint32_t task) {
    const std::uint32_t meeting = score_.tasks[task].meeting;
    double& ready = meeting_ready_[meeting];
    ready = std::max(ready, ready_[lane]);
    if (!lanes_.arrive(lane)) return;
    const double start = ready;
    const double end = start + score_.transfers[score_.meetings[meeting].transfer].work;
    ready = 0;
    for (LaneIndex member = lanes_.leave(meeting); member != kNoLane;) {
      const LaneIndex next = lanes_[member].next_in_list;
      finish(member, lanes_.next_task(member), start, end);
      resumed_.push_back(member);
      member = next;
    }
  }

  void finish(LaneIndex lane, std::uint32_t task, double start, double end) {
    played_.steps[lanes_[lane].step][task] = {Seconds(start), Seconds(end)};
    ready_[lane] = end;
    lanes_.finish_next(lane, resumed_);
  }

  const Score& score_;
  const double dispatch_;
  LaneStates lanes_;
  std::vector<double> ready_;          // by lane
  std::vector<double> meeting_ready_;  // by meeting
  std::vector<LaneIndex> resumed_;
  Played played_;
};

}  // namespace

Played play_alone(const Score& score, const EngineOptions& options) {
  return AlonePlay(score, options).play();
}

}  // namespace meshwright
