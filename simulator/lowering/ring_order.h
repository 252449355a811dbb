#pragma once

#include <cstdint>
#include <vector>

#include "simulator/layout/mesh.h"

namespace meshwright {

// The devices of a ring of rings, by their place along one axis or two: (o, i) is the i-th of ring
// o. In round a and turn b of it, a device has the part of the one that stands a rings and b places
// before it. A part goes from neighbour to neighbour within a ring, and meanwhile to the next ring,
// where it is wanted a round later (Gu et al. 2024, arXiv 2406.18485).
class RingOrder {
 public:
  RingOrder(const Mesh& mesh, const std::vector<AxisId>& axes,
            const std::vector<std::int64_t>& coordinates)
      : inner_(mesh.size(axes.back())), outer_(mesh.size(axes) / inner_) {
    std::int64_t self = 0;
    for (const AxisId axis : axes) self = self * mesh.size(axis) + coordinates[axis.index()];
    ring_ = self / inner_;
    turn_ = self % inner_;
  }

  std::int64_t steps() const { return inner_ * outer_; }
  bool starts_round(std::int64_t step) const { return step % inner_ == 0; }
  bool ends_round(std::int64_t step) const { return (step + 1) % inner_ == 0; }
  bool is_last_round(std::int64_t step) const { return step / inner_ + 1 == outer_; }
  // The one that stands so many rings and places further.
  std::size_t further(std::int64_t rings, std::int64_t turns) const {
    const std::int64_t ring = (ring_ + rings + outer_) % outer_;
    const std::int64_t turn = (turn_ + turns + inner_) % inner_;
    return static_cast<std::size_t>(ring * inner_ + turn);
  }
  // Who has a member's part at a step.
  std::size_t holder(std::size_t member, std::int64_t step) const {
    const auto own = static_cast<std::int64_t>(member);
    const std::int64_t ring = (own / inner_ + step / inner_) % outer_;
    return static_cast<std::size_t>(ring * inner_ + (own + step) % inner_);
  }
  std::int64_t end_of_round(std::int64_t step) const { return (step / inner_ + 1) * inner_; }
  // Whose part the device has at a step.
  std::size_t source(std::int64_t step) const {
    return further(-(step / inner_), -(step % inner_));
  }
  // Who has the part of a step at the next one, or owns it after the last. Who had it before, and
  // for the own part, at step 0, the last of all.
  std::size_t next_holder(std::int64_t step) const { return further(ends_round(step) ? 1 : 0, 1); }
  std::size_t holder_before(std::int64_t step) const {
    return further(starts_round(step) ? -1 : 0, -1);
  }

 private:
  std::int64_t inner_, outer_;
  std::int64_t ring_ = 0, turn_ = 0;  // of this device
};

}  // namespace meshwright
