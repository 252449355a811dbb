// What stages keep, at the least.
#include <algorithm>
#include <optional>

#include "planner/bound/stage_play.h"
#include "simulator/lowering/step_end.h"

namespace meshwright {

Bytes StagePlay::optimizer_bytes(std::int64_t elements) const {
  const auto states = static_cast<std::int64_t>(optimizer_state(element_plan_).size());
  return bytes_per_element(state_element(element_plan_), element_plan_.precision) *
         (states * elements);
}

Bytes StagePlay::state_bytes(const StageHolds& stage) const {
  const auto bytes = [&](BufferElement element) {
    return bytes_per_element(element, element_plan_.precision);
  };
  const auto share = [&](std::int64_t elements, int from) {
    if (choices_.zero < from) return elements;
    return (elements - stage.routed) / repeats_ + stage.routed / (repeats_ / sharing_);
  };
  Bytes total = bytes(gradient_element(element_plan_)) * share(stage.elements, 2);
  // Some software makes 16-bit weights of the optimizer's copy when it gathers them.
  const bool casts =
      setting_.memory.casts_weights && is_mixed(element_plan_.precision) && choices_.zero == 3;
  if (!casts) total += bytes(BufferElement::Real) * share(stage.elements + stage.frozen, 3);
  if (!choices_.offload_optimizer) {
    total += optimizer_bytes(share(stage.elements, 1));
  }
  return total;
}

Bytes StagePlay::host_bytes() const {
  if (!choices_.offload_activations && !choices_.offload_optimizer) return {};
  std::optional<Bytes> least;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Bytes bytes = work_.stage(s).away;
    if (choices_.offload_optimizer) bytes += optimizer_bytes(owned(work_.stage(s)));
    least = std::min(least.value_or(bytes), bytes);
  }
  return *least;
}

Bytes StagePlay::bytes() const {
  Bytes most;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    most = std::max(most, state_bytes(work_.stage(s)) + work_.stage(s).activations);
  }
  return most;
}

}  // namespace meshwright
