#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "simulator/engine/play.h"

namespace meshwright {

using LaneIndex = std::uint32_t;
inline constexpr LaneIndex kNoLane = std::numeric_limits<LaneIndex>::max();

// How far lanes have come, which is the same for both ways of playing. A lane runs its tasks in
// their order, step after step. While it cannot go on, it stands in exactly one list: of those that
// wait for the same task, or of those that have come to the same meeting.
class LaneStates {
 public:
  struct Lane {
    std::uint32_t next = 0;  // of its tasks
    std::uint32_t step = 0;
    std::uint32_t waits_done = 0;  // of the next task: those of this step, then those carried over
    LaneIndex next_in_list = kNoLane;
  };

  LaneStates(const Score& score, std::uint32_t steps)
      : score_(score),
        steps_(steps),
        lanes_(score.lanes.size()),
        done_(score.tasks.size()),
        waiting_(score.tasks.size(), kNoLane),
        at_meeting_(score.meetings.size(), kNoLane),
        arrived_(score.meetings.size()) {}

  Lane& operator[](LaneIndex lane) { return lanes_[lane]; }
  LaneIndex count() const { return static_cast<LaneIndex>(lanes_.size()); }
  bool has_next(LaneIndex lane) const {
    return lanes_[lane].step < steps_ && score_.lanes[lane].count > 0;
  }
  std::uint32_t next_task(LaneIndex lane) const {
    return score_.lane_tasks[score_.lanes[lane].first + lanes_[lane].next];
  }

  // Whether all that the lane's next task waits for is done; `see(task, step)` is called once for
  // each of these. False: the lane now stands in the list of one that is not.
  template <class See>
  bool waits_are_over(LaneIndex index, See see) {
    Lane& lane = lanes_[index];
    const std::uint32_t task = next_task(index);
    const auto waits = score_.waits_of(score_.tasks[task]);
    for (; lane.waits_done < waits.size(); ++lane.waits_done) {
      if (!is_done(waits[lane.waits_done], lane.step, index)) return false;
      see(waits[lane.waits_done], lane.step);
    }
    if (lane.step == 0) return true;
    const auto carried = score_.carried_to(task);
    for (; lane.waits_done < waits.size() + carried.size(); ++lane.waits_done) {
      const std::uint32_t wait = carried[lane.waits_done - waits.size()];
      if (!is_done(wait, lane.step - 1, index)) return false;
      see(wait, lane.step - 1);
    }
    return true;
  }

  // The lane stands at its next task's meeting. True: it is the last to come.
  bool arrive(LaneIndex index) {
    const std::uint32_t meeting = score_.tasks[next_task(index)].meeting;
    lanes_[index].next_in_list = at_meeting_[meeting];
    at_meeting_[meeting] = index;
    return ++arrived_[meeting] == score_.meetings[meeting].members;
  }
  LaneIndex first_at(std::uint32_t meeting) const { return at_meeting_[meeting]; }
  // The lanes at a meeting, which is over.
  LaneIndex leave(std::uint32_t meeting) {
    const LaneIndex first = at_meeting_[meeting];
    at_meeting_[meeting] = kNoLane;
    arrived_[meeting] = 0;
    return first;
  }

  // The lane's next task is done; those that waited for it are added to `resumed`.
  void finish_next(LaneIndex index, std::vector<LaneIndex>& resumed) {
    Lane& lane = lanes_[index];
    const std::uint32_t task = next_task(index);
    lane.waits_done = 0;
    if (++lane.next == score_.lanes[index].count) {
      lane.next = 0;
      ++lane.step;
    }
    ++done_[task];
    for (LaneIndex waiter = waiting_[task]; waiter != kNoLane;) {
      resumed.push_back(waiter);
      waiter = lanes_[waiter].next_in_list;
    }
    waiting_[task] = kNoLane;
  }

  // The first lane that has not come to its end.
  std::optional<Played::Block> find_block() const;

 private:
  bool is_done(std::uint32_t task, std::uint32_t step, LaneIndex waiter) {
    if (done_[task] > step) return true;
    lanes_[waiter].next_in_list = waiting_[task];
    waiting_[task] = waiter;
    return false;
  }

  const Score& score_;
  const std::uint32_t steps_;
  std::vector<Lane> lanes_;
  std::vector<std::uint8_t> done_;     // by task: how often
  std::vector<LaneIndex> waiting_;     // by task: the first of the list
  std::vector<LaneIndex> at_meeting_;  // by meeting: the first of the list
  std::vector<std::uint32_t> arrived_;
};

}  // namespace meshwright
