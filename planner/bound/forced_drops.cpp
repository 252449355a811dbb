// What plans must compute again because they could not keep it.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/model_layers.h"
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

// What it takes to compute again what is dropped.
double again_s(const BlockBound& block, const std::vector<bool>& dropped) {
  double seconds = 0;
  for (std::size_t op = 0; op < block.again_by.size(); ++op) {
    if (block.layer && dropped[op]) seconds += block.again_by[op];
  }
  return seconds;
}

std::vector<std::string> common(const std::vector<std::string>& a,
                                const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

// What a layer behind the first ones drops.
const std::vector<std::string>& dropped_behind(const RecomputeChoice& recompute) {
  return recompute.layers > 0 ? recompute.others : recompute.dropped;
}

// Tensors that both drop: in as many first layers of a chunk as both speak of, and in any.
RecomputeChoice common_drops(const RecomputeChoice& a, const RecomputeChoice& b) {
  if (a.kind == Recompute::Uniform) return b;
  if (b.kind == Recompute::Uniform) return a;
  if (a.kind == Recompute::None || b.kind == Recompute::None) return {};
  RecomputeChoice both{.kind = Recompute::Drop, .layers = 0};
  both.dropped = common(a.dropped, b.dropped);
  both.others = common(both.dropped, common(dropped_behind(a), dropped_behind(b)));
  if (both.dropped.empty()) return {};
  both.layers =
      a.layers == 0 || b.layers == 0 ? std::max(a.layers, b.layers) : std::min(a.layers, b.layers);
  if (both.layers == 0 || both.others == both.dropped) return {Recompute::Drop, 0, both.dropped};
  return both;
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
      const auto is_dropped = [&](TensorId tensor) {
        return std::ranges::any_of(choice.dropped, [&](const std::string& name) {
          return is_named(block.tensors[tensor.index()].name, name);
        });
      };
      // What the next layer reads stays until it has, in its backward as well.
      const auto goes_on = [&](TensorId tensor) {
        return std::ranges::find(block.inputs, tensor, &BlockInput::carried) != block.inputs.end();
      };
      for (const Op& op : block.ops) {
        of_block.push_back((all || std::ranges::any_of(op.outputs, is_dropped)) &&
                           std::ranges::none_of(op.outputs, goes_on));
      }
    }
  }
  return droppings;
}

Bytes Bounds::least_kept(const BlockBound& cost, std::size_t block,
                         const RecomputeChoice& way) const {
  std::optional<Bytes> least;
  for (const Dropping& one : droppings_) {
    if (way != RecomputeChoice() && way != one.recompute) continue;
    const Bytes kept = one.dropped ? kept_beside(cost, (*one.dropped)[block]) : Bytes();
    least = std::min(least.value_or(kept), kept);
  }
  return least.value_or(Bytes());
}

Bytes Bounds::least_bytes(const PlanChoices& choices) {
  PlanChoices plain = choices;
  plain.recompute = {};
  const BlockBounds& costs = plain_blocks(plain);
  std::vector<BlockMemory> memory;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    memory.push_back(*costs.blocks[b].least);
    if (!costs.blocks[b].layer) continue;
    memory.back().kept = least_kept(costs.blocks[b], b, choices.recompute);
  }
  StageWork work(plain, runs_of(plain), costs, costs, items(plain),
                 setting_.memory.caching_allocator, std::move(memory));
  return StagePlay(*this, plain, work, LeftOpen::State).fullest().bytes + held_always(plain);
}

// What is kept of a micro-batch for the backward, by kind of chunk, where the first layers of each
// chunk drop one thing and the others another.
std::vector<Bytes> Bounds::kept_of_kinds(const StageWork& work, const BlockBounds& costs,
                                         const DroppedOps& first, const DroppedOps& others,
                                         std::int64_t layers) {
  std::vector<Bytes> of_kinds(work.kind_count());
  for (std::size_t k = 0; k < of_kinds.size(); ++k) {
    std::int64_t left = layers;
    for (const BlockRun& run : work.kind(k).runs) {
      const BlockBound& block = costs.blocks[run.block];
      const std::int64_t firsts = block.layer ? std::min(left, run.count) : 0;
      left -= firsts;
      of_kinds[k] += kept_beside(block, first[run.block]) * firsts +
                     kept_beside(block, others[run.block]) * (run.count - firsts);
    }
    // What goes to the next chunk is kept there.
    if (work.kind(k).sends) of_kinds[k] -= std::min(of_kinds[k], costs.message);
  }
  return of_kinds;
}

bool Bounds::finds_room(const PlanChoices& plain, const StageWork& work,
                        const std::vector<Bytes>& of_kinds) const {
  for (std::size_t s = 0; s < static_cast<std::size_t>(plain.pp); ++s) {
    const StageHolds& stage = work.stage(s);
    Bytes bytes = state_bytes(stage, plain, element_plan(plain), setting_) + held_always(plain);
    for (std::size_t k = 0; k < stage.in_flight.size(); ++k) {
      bytes += of_kinds[k] * stage.in_flight[k];
    }
    if (bytes > *room_) return false;
  }
  return true;
}

// What is dropped by all that drop one thing in some layers and in the others what stands before
// it, which finds no room by itself: the former at least in so many that the rest finds room.
RecomputeChoice Bounds::mixed_drops(const PlanChoices& plain, const StageWork& work,
                                    const BlockBounds& costs, const Dropping& one,
                                    const Dropping& before) const {
  const DroppedOps &first = *one.dropped, &others = *before.dropped;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    const BlockBound& block = costs.blocks[b];
    if (kept_beside(block, first[b]) > kept_beside(block, others[b])) return before.recompute;
  }
  const std::int64_t all =
      std::ranges::max(layers_of_chunks(plain, find_layers(setting_.model).count()));
  std::int64_t too_few = 0, enough = all;
  while (enough - too_few > 1) {
    const std::int64_t middle = (too_few + enough) / 2;
    const bool fits = finds_room(plain, work, kept_of_kinds(work, costs, first, others, middle));
    (fits ? enough : too_few) = middle;
  }
  if (enough >= all) return one.recompute;
  return {Recompute::Drop, enough, one.recompute.dropped, before.recompute.dropped};
}

// Of squares and cubes ops also move what they read, and not all of that is done again.
std::vector<Bounds::LayerAgain> Bounds::again_in_layers(const PlanChoices& choices) {
  const RecomputeChoice& recompute = choices.recompute;
  if (recompute.kind != Recompute::Drop || choices.tensor != TensorForm::OneD) return {};
  const BlockBounds& costs = plain_blocks(choices);
  const auto dropped = droppings_of(
      setting_.model,
      {{Recompute::Drop, 0, recompute.dropped}, {Recompute::Drop, 0, dropped_behind(recompute)}});
  std::vector<LayerAgain> blocks;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    blocks.push_back({again_s(costs.blocks[b], (*dropped[0].dropped)[b]),
                      again_s(costs.blocks[b], (*dropped[1].dropped)[b])});
  }
  return blocks;
}

RecomputeChoice Bounds::forced_drops(const PlanChoices& choices) {
  PlanChoices forced = choices;
  forced.recompute = least_drops(choices);
  return has_blocks(forced) ? forced.recompute : RecomputeChoice{};
}

// Sets that stand next to each other may be mixed where one of them finds room.
RecomputeChoice Bounds::least_drops(const PlanChoices& choices) {
  if (!room_ || choices.offload_activations) return {};
  PlanChoices plain = choices;
  plain.recompute = {};
  const StageWork& work = work_of(plain);
  const BlockBounds& costs = plain_blocks(plain);
  std::optional<RecomputeChoice> forced;
  const auto note = [&](const RecomputeChoice& one) {
    forced = forced ? common_drops(*forced, one) : one;
  };
  bool fits_before = false;
  for (std::size_t i = 0; i < droppings_.size(); ++i) {
    const Dropping& one = droppings_[i];
    if (!one.dropped) return {};
    const bool fits =
        finds_room(plain, work, kept_of_kinds(work, costs, *one.dropped, *one.dropped, 0));
    const bool mixes = i > 0 && one.recompute.kind == Recompute::Drop;
    if (fits || (mixes && fits_before)) note(one.recompute);
    if (fits && mixes && !fits_before) {
      note(mixed_drops(plain, work, costs, one, droppings_[i - 1]));
    }
    if (forced && forced->kind == Recompute::None) return {};
    fits_before = fits;
  }
  return forced.value_or(RecomputeChoice{});
}

}  // namespace meshwright
