#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace meshwright {

// When a search goes for a plan, and when on with its proof: by turns and kinds of blocks, so that
// it does not depend on the clock.
class Pace {
 public:
  // A set was decided further, or a plan looked at.
  void note_turn() { ++turns_; }
  // Before the turn ends; `better`: than all plans before it.
  void note_plan(bool better, std::size_t blocks) {
    in_vain_ = better ? 0 : in_vain_ + 1;
    latest_turns_ = turns_ + 1;
    latest_blocks_ = blocks;
  }
  std::int64_t turns() const { return turns_; }

  // What must be expected of a set to go before the least bounds: the less, the more plans were no
  // better than the best. As long as there is none, not much more than these: a plan that is much
  // worse leaves little out, and so is not wanted before long. None: these come to plans soon
  // enough, or a plan was looked at not long ago.
  std::optional<double> promising(std::optional<double> best, double least,
                                  std::size_t blocks) const {
    constexpr double kMuchBetter = 0.97, kStep = 0.02, kWorse = 1.15;
    constexpr std::int64_t kLong = 50'000;
    constexpr std::int64_t kManyTurns = 12'000, kFewTurns = 50;
    constexpr std::size_t kManyBlocks = 1500;
    const bool many = turns_ >= kManyTurns || blocks >= kManyBlocks;
    // For the proof.
    if (!many || turns_ % 4 == 3) return std::nullopt;
    if (!best) {
      const std::int64_t pause = kFewTurns << std::min<std::int64_t>(in_vain_, 10);
      if (in_vain_ > 0 && turns_ < latest_turns_ + pause) return std::nullopt;
      return turns_ < kLong ? kWorse * least : std::numeric_limits<double>::infinity();
    }
    // A quarter more each time.
    if (turns_ < latest_turns_ * 5 / 4 && blocks < latest_blocks_ * 5 / 4) return std::nullopt;
    return *best * (kMuchBetter - kStep * static_cast<double>(in_vain_));
  }

 private:
  std::int64_t turns_ = 0;
  std::int64_t in_vain_ = 0;  // plans since the best
  // When the latest plan was looked at.
  std::int64_t latest_turns_ = 0;
  std::size_t latest_blocks_ = 0;
};

}  // namespace meshwright
