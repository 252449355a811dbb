// What stages keep, at the least.
#include <algorithm>
#include <optional>

#include "planner/bound/stage_play.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/lowering/step_end.h"

namespace meshwright {

Bytes optimizer_bytes(const Plan& element_plan, std::int64_t elements) {
  const auto states = static_cast<std::int64_t>(optimizer_state(element_plan).size());
  return bytes_per_element(state_element(element_plan), element_plan.precision) *
         (states * elements);
}

Bytes state_bytes(const StageHolds& stage, const PlanChoices& choices, const Plan& element_plan,
                  const Setting& setting) {
  const auto bytes = [&](BufferElement element) {
    return bytes_per_element(element, element_plan.precision);
  };
  const std::int64_t repeats = state_owners(choices);
  const std::int64_t repeats_routed = repeated_weights(choices) / replicas_sharing_experts(choices);
  const auto share = [&](std::int64_t elements, int from) {
    if (choices.zero < from) return elements;
    return (elements - stage.routed) / repeats + stage.routed / repeats_routed;
  };
  Bytes total = bytes(gradient_element(element_plan)) * share(stage.elements, 2);
  // Some software makes 16-bit weights of the optimizer's copy when it gathers them.
  const bool casts =
      setting.memory.casts_weights && is_mixed(element_plan.precision) && choices.zero == 3;
  if (!casts) total += bytes(BufferElement::Real) * share(stage.elements + stage.frozen, 3);
  if (!choices.offload_optimizer) {
    total += optimizer_bytes(element_plan, share(stage.elements, 1));
  }
  return total;
}

Bytes StagePlay::host_bytes() const {
  if (!choices_.offload_activations && !choices_.offload_optimizer) return {};
  std::optional<Bytes> least;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Bytes bytes = work_.stage(s).away;
    if (choices_.offload_optimizer) bytes += optimizer_bytes(element_plan_, owned(work_.stage(s)));
    least = std::min(least.value_or(bytes), bytes);
  }
  return *least;
}

// What an allocator keeps apart where the model ends. A bucket is no larger than it may be, or than
// its only weight.
Bytes StagePlay::apart_at_end(const PlanChoices& less) const {
  const bool sums = less.zero >= 2 && repeats_ > 1, gathers = less.zero == 3 && repeats_ > 1;
  if (!gathers) return work_.apart_at_end({}, sums);
  const Bytes element = bytes_per_element(BufferElement::Real, element_plan_.precision);
  const Bytes largest = element * (work_.stage(stages_.size() - 1).largest_weight + repeats_);
  return work_.apart_at_end(std::max(bucket_of(choices_) + element * repeats_, largest), sums);
}

// Weights and gradients that are made whole are not looked at.
void StagePlay::find_room() {
  constexpr Bytes kMany = 1_GiB;
  copy_rate_ = (copy_s(kMany * 2) - copy_s(kMany)) / static_cast<double>(kMany.value());
  if (open_ != LeftOpen::Nothing || !bounds_.room_) return;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].room = *bounds_.room_ - bounds_.held_always(choices_) -
                      state_bytes(work_.stage(s), choices_, element_plan_, setting_);
  }
}

// What is shared out is made whole for its kernels, which may take more than it saves. No more is
// said than of plans that share less out: what shares most out stands for all of them.
StagePlay::Fullest StagePlay::fullest() const {
  Fullest most;
  const bool routed = repeats_ > sharing_;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    std::optional<Bytes> least;
    PlanChoices less = choices_;
    for (less.zero = 0; less.zero <= choices_.zero; ++less.zero) {
      const int elsewhere = repeats_ > 1 ? std::max(0, less.zero - 1) : 0;
      const StageHolds& stage = work_.stage(s);
      Bytes passing = stage.activations.of[elsewhere][routed];
      if (s + 1 == stages_.size() && setting_.memory.caching_allocator) {
        passing = std::max(passing, stage.before_end.of[elsewhere][routed] + apart_at_end(less));
      }
      const Bytes bytes = state_bytes(stage, less, element_plan_, setting_) + passing;
      least = std::min(least.value_or(bytes), bytes);
    }
    if (*least > most.bytes) most = {*least, s};
  }
  return most;
}

}  // namespace meshwright
