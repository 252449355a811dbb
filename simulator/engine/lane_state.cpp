#include "simulator/engine/lane_state.h"

namespace meshwright {

std::optional<Played::Block> LaneStates::find_block() const {
  for (LaneIndex lane = 0; lane < lanes_.size(); ++lane) {
    if (!has_next(lane)) continue;
    Played::Block block{.task = next_task(lane)};
    const auto waits = score_.waits_of(score_.tasks[block.task]);
    const std::uint32_t done = lanes_[lane].waits_done;
    if (done < waits.size()) {
      block.waits_for = waits[done];
    } else if (lanes_[lane].step > 0 &&
               done < waits.size() + score_.carried_to(block.task).size()) {
      block.waits_for = score_.carried_to(block.task)[done - waits.size()];
    }
    return block;
  }
  return std::nullopt;
}

}  // namespace meshwright
