#pragma once

#include <string>

#include "executor/cuda/call_views.h"
#include "executor/cuda/expert_work.h"
#include "executor/cuda/router_work.h"
#include "executor/rope_table.h"

// What work needs to know of a call beside its operands.
namespace meshwright::work {

// Cosines, then sines.
template <class Real>
std::vector<Real> rope_angles(const RopeAttributes& rope,
                              const std::vector<ShardRange>& positions) {
  const RopeTable<Real> table(rope, positions);
  std::vector<Real> angles = table.cosines;
  angles.insert(angles.end(), table.sines.begin(), table.sines.end());
  return angles;
}

inline StepKey step_key(const KernelCall& call, const StepNumbers* numbers) {
  return {random_key(call.settings.seed, call.kernel.name), numbers};
}

template <class Real>
std::string rope_key(const RopeAttributes& rope, const std::vector<ShardRange>& positions) {
  std::string key = "rope " + rope.scaling + " " + std::to_string(sizeof(Real));
  for (const double number :
       {rope.theta, rope.factor, rope.low_factor, rope.high_factor, rope.attention_factor,
        static_cast<double>(rope.rotated), static_cast<double>(rope.original_positions)}) {
    key.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  for (const ShardRange& range : positions) {
    key += " " + std::to_string(range.start) + "+" + std::to_string(range.size);
  }
  return key;
}

template <class Stored>
AttentionOperands<Stored> attention_operands(const KernelCall& call, CallViews<Stored>& views,
                                             const StepNumbers* numbers) {
  const auto& given = call.attributes<AttentionAttributes>();
  const auto& place = call.kernel.place;
  AttentionRules rules{.causal = given.causal,
                       .alibi = given.alibi,
                       .has_window = given.window.has_value(),
                       .window = given.window.value_or(0),
                       .scale = given.scale,
                       .dropout = given.dropout,
                       .key = step_key(call, numbers),
                       .batch_row = call.batch_row,
                       .first_head = place[1].ranges[0].start,
                       .all_heads = place[1].size,
                       .queries = views.place_ranges(place[2]),
                       .keys = views.place_ranges(place[3])};
  return {views.template heads<const Stored>(0), views.template heads<const Stored>(1),
          views.template heads<const Stored>(2), rules, call.kernel.accumulate};
}

template <class Stored>
RouterRules router_rules(const KernelCall& call, CallViews<Stored>& views, std::int64_t choices) {
  const auto& router = call.attributes<RouterAttributes>();
  if (choices > RouterRules::kMostChoices || router.groups > RouterRules::kMostGroups) {
    views.refuse();
  }
  return {.experts = views.columns(0),
          .choices = choices,
          .groups = router.groups,
          .chosen_groups = router.chosen_groups,
          .sigmoid = router.sigmoid,
          .renormalize = router.renormalize,
          .factor = router.factor};
}

}  // namespace meshwright::work
