// What plans must compute again because they could not keep it.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/recompute_segments.h"

namespace meshwright {
namespace {

// Of what a block's ops leave, what is kept beside what is dropped, or all of it where that does
// not count for the block. What one op leaves is kept whatever others do, but where it is dropped.
Bytes kept_beside(const BlockBound& block, const std::vector<bool>& dropped) {
  Bytes kept;
  for (std::size_t op = 0; op < block.kept_by.size(); ++op) {
    if (!block.layer || !dropped[op]) kept += block.kept_by[op];
  }
  return kept;
}

// Tensors that both drop.
RecomputeChoice common_drops(const RecomputeChoice& a, const RecomputeChoice& b) {
  if (a.kind == Recompute::Uniform) return b;
  if (b.kind == Recompute::Uniform) return a;
  std::vector<std::string> both;
  std::ranges::set_intersection(a.dropped, b.dropped, std::back_inserter(both));
  if (both.empty()) return {};
  return {.kind = Recompute::Drop, .layers = 0, .dropped = std::move(both)};
}

}  // namespace

std::vector<Bounds::Dropping> Bounds::droppings_of(const Model& model,
                                                   std::vector<RecomputeChoice> recomputes) {
  std::vector<Dropping> droppings;
  for (RecomputeChoice& recompute : recomputes) {
    Dropping& dropping = droppings.emplace_back(Dropping{std::move(recompute), std::nullopt});
    const RecomputeChoice& choice = dropping.recompute;
    const bool all = choice.kind == Recompute::Uniform && choice.layers == 1;
    const bool some = choice.kind == Recompute::Drop && choice.layers == 0;
    if (!all && !some && choice.kind != Recompute::None) continue;
    dropping.dropped.emplace();
    for (const Block& block : model.blocks) {
      auto& of_block = dropping.dropped->emplace_back();
      for (const Op& op : block.ops) {
        of_block.push_back(all || std::ranges::any_of(op.outputs, [&](TensorId tensor) {
                             return std::ranges::any_of(
                                 choice.dropped, [&](const std::string& name) {
                                   return is_named(block.tensors[tensor.index()].name, name);
                                 });
                           }));
      }
    }
  }
  return droppings;
}

RecomputeChoice Bounds::forced_drops(const PlanChoices& choices) {
  if (!room_ || choices.offload_activations) return {};
  PlanChoices plain = choices;
  plain.recompute = {};
  const StageWork& work = work_of(plain);
  const BlockBounds& costs = plain_blocks(plain);
  const auto finds_room = [&](const std::vector<std::vector<bool>>& dropped) {
    std::vector<Bytes> of_kinds(work.kind_count());
    for (std::size_t k = 0; k < of_kinds.size(); ++k) {
      for (const BlockRun& run : work.kind(k).runs) {
        of_kinds[k] += kept_beside(costs.blocks[run.block], dropped[run.block]) * run.count;
      }
      // What goes to the next chunk is kept there.
      if (work.kind(k).sends) of_kinds[k] -= std::min(of_kinds[k], costs.message);
    }
    for (std::size_t s = 0; s < static_cast<std::size_t>(choices.pp); ++s) {
      const StageHolds& stage = work.stage(s);
      Bytes bytes = state_bytes(stage, plain, element_plan(plain), setting_) + held_always(plain);
      for (std::size_t k = 0; k < stage.in_flight.size(); ++k) {
        bytes += of_kinds[k] * stage.in_flight[k];
      }
      if (bytes > *room_) return false;
    }
    return true;
  };
  std::optional<RecomputeChoice> forced;
  for (const Dropping& one : droppings_) {
    if (!one.dropped) return {};
    if (!finds_room(*one.dropped)) continue;
    forced = forced ? common_drops(*forced, one.recompute) : one.recompute;
    if (forced->kind == Recompute::None) return {};
  }
  plain.recompute = forced.value_or(RecomputeChoice{});
  return std::holds_alternative<BlockBounds>(blocks(plain)) ? plain.recompute : RecomputeChoice{};
}

}  // namespace meshwright
