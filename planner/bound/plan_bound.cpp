#include "planner/bound/plan_bound.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

#include "costmodel/model/model_costs.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

bool is_trained(const Model& model) {
  const auto frozen = [](const Weight& weight) { return weight.frozen; };
  return std::ranges::none_of(model.shared_weights, frozen) &&
         std::ranges::none_of(model.blocks, [&](const Block& block) {
           return std::ranges::any_of(block.weights, frozen);
         });
}

bool has_experts(const Block& block, std::size_t weight) {
  return std::ranges::any_of(block.ops, [&](const Op& op) {
    return op.kind == OpKind::ExpertMatmul &&
           std::ranges::any_of(op.weights, [&](const WeightUse& use) {
             return !use.shared && use.id.index() == weight;
           });
  });
}

// What attention cannot do without, of one sample: pairs that masks show, but for those of a token
// with itself. How blocks of keys are cut does not matter.
double attention_flops(const Model& model, const ModelCosts& costs, std::int64_t sequence) {
  double flops = 0;
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    const Block& block = model.blocks[b];
    for (std::size_t o = 0; o < block.ops.size(); ++o) {
      const auto* attributes = std::get_if<AttentionAttributes>(&block.ops[o].attributes);
      if (block.ops[o].kind != OpKind::Attention || !attributes) continue;
      const auto is_sequence = [&](std::size_t input) {
        const Tensor& tensor = block.tensors[block.ops[o].inputs[input].index()];
        return model.dims[tensor.dims[1].index()].role == DimRole::Sequence;
      };
      if (!is_sequence(0) || !is_sequence(1)) continue;
      const std::vector<ShardRange> all = {{0, sequence}};
      const auto tokens = static_cast<double>(sequence);
      const double pairs = static_cast<double>(seen_pairs(all, all, *attributes)) - tokens;
      flops += static_cast<double>(costs.blocks[b].ops[o].work.forward.value()) *
               static_cast<double>(block.count) * pairs / (tokens * tokens);
    }
  }
  return flops;
}

// Whether all groups of as many devices, as many of them in a node, transfer alike.
bool is_even(const Cluster& cluster) {
  return cluster.node_types.size() == 1 && cluster.nodes.size() == 1 &&
         cluster.exceptions.empty() && cluster.network.size() <= 1 &&
         cluster.node_types.front().levels.size() == 1;
}

// What a layer that recomputes does by itself. Where several are rerun together it is not said
// when, only how long kernels take in all.
RecomputeChoice layer_recompute(const RecomputeChoice& recompute) {
  switch (recompute.kind) {
    case Recompute::None:
    case Recompute::Selective:
    case Recompute::Products:
      return recompute;
    case Recompute::Uniform:
      return recompute.layers == 1 ? recompute : RecomputeChoice{};
    case Recompute::First:
      return {Recompute::Uniform, 1};
    case Recompute::Drop:
      return {Recompute::Drop, 0, recompute.dropped};
  }
  return {};
}

// And one of the layers behind the first ones of a chunk that recompute.
RecomputeChoice other_recompute(const RecomputeChoice& recompute) {
  if (recompute.others.empty()) return {};
  return {Recompute::Drop, 0, recompute.others};
}

// Of a chunk's layers, those that recompute.
std::int64_t recomputed_layers(const RecomputeChoice& recompute, std::int64_t layers) {
  const bool some = recompute.kind == Recompute::First ||
                    (recompute.kind == Recompute::Drop && recompute.layers > 0);
  return some ? std::min(recompute.layers, layers) : layers;
}

// And those whose activations go to the host.
std::int64_t offloaded_layers(const PlanChoices& choices, std::int64_t layers) {
  if (!choices.offload_activations) return 0;
  return choices.offloaded_layers > 0 ? std::min(choices.offloaded_layers, layers) : layers;
}

}  // namespace

Bounds::Bounds(const BatchChoice& batch, const Setting& setting, std::optional<Bytes> room,
               std::vector<RecomputeChoice> recomputes)
    : batch_(batch),
      setting_(setting),
      room_(room),
      droppings_(droppings_of(setting.model, std::move(recomputes))),
      few_(few_layers(setting.model)),
      few_setting_(with_model(setting, few_)),
      known_(std::make_shared<KnownBlocks>()),
      links_(setting.cluster),
      even_(is_even(setting.cluster)) {
  const ModelCosts costs =
      model_costs(setting.model, {.micro_batch = 1, .sequence = batch.sequence});
  const double forward = static_cast<double>(costs.linear_forward.value()) +
                         attention_flops(setting.model, costs, batch.sequence);
  flops_ = forward * static_cast<double>(batch.global_batch) * (is_trained(setting.model) ? 3 : 1);
  const DimSizes sizes(setting.model, 1, batch.sequence);
  for (const Block& block : setting.model.blocks) {
    layer_count_ += block.count > 1 ? block.count : 0;
    for (std::size_t w = 0; w < block.weights.size(); ++w) {
      if (block.weights[w].frozen) continue;
      const std::int64_t elements = sizes.elements(block.weights[w].dims) * block.count;
      const auto number = has_experts(block, w) ? &WeightElements::routed : &WeightElements::common;
      weights_.*number += elements;
      if (block.count == 1) continue;
      layer_weights_.*number += elements;
      largest_.*number = std::max(largest_.*number, elements / block.count);
    }
  }
  for (const NodeType& node : setting.cluster.node_types) {
    peak_ = std::max(peak_, peak_of(node.device, batch.precision).value());
  }
}

Bounds::LoweredKey Bounds::key_of(const PlanChoices& choices) {
  // Without a place neighbours stand in a node as far as it goes.
  const std::int64_t alone = choices.place.empty() ? 0 : 1;
  const auto inside = [&](std::string_view axis) {
    const auto share = std::ranges::find(choices.place, axis, &NodeShare::axis);
    return share == choices.place.end() ? alone : share->count;
  };
  const std::int64_t sharing = replicas_sharing_experts(choices);
  return {.tp = choices.tp,
          .tensor = choices.tensor,
          .depth = choices.depth,
          .summa = choices.summa,
          .tp_inside = inside("tp"),
          .cp = choices.cp,
          .cp_inside = inside("cp"),
          .context = context_degrees(choices),
          .gathers_keys = choices.context == Context::RingSelfAttention,
          .ep = choices.ep,
          .etp = expert_tensor_degree(choices),
          .dp_inside = choices.ep > 1 ? std::min(inside("dp"), sharing) : 0,
          .sequence_parallel = choices.sequence_parallel,
          .recompute = layer_recompute(choices.recompute)};
}

std::unique_ptr<Bounds> Bounds::for_another_thread() const {
  std::vector<RecomputeChoice> recomputes;
  for (const Dropping& dropping : droppings_) recomputes.push_back(dropping.recompute);
  auto other = std::make_unique<Bounds>(batch_, setting_, room_, std::move(recomputes));
  other->known_ = known_;
  return other;
}

std::shared_ptr<const std::variant<PlannedBlocks, Reasons>> Bounds::planned_blocks(
    const PlanChoices& choices, BlocksKey key) const {
  key.first.recompute = {};
  return known_->planned.get(
      key, [&] { return newly_planned(choices, key.first); }, [](const auto&) { return 1; });
}

std::variant<PlannedBlocks, Reasons> Bounds::newly_planned(const PlanChoices& choices,
                                                           const LoweredKey& key) const {
  PlanChoices block = choices;
  block.recompute = {};
  if (!choices.place.empty()) {
    block.place = {{"tp", key.tp_inside}, {"cp", key.cp_inside}};
    if (key.dp_inside > 1) block.place.push_back({"dp", key.dp_inside});
  }
  return plan_blocks(block, batch_, few_setting_);
}

const std::variant<BlockBounds, Reasons>& Bounds::blocks(const PlanChoices& choices) {
  const BlocksKey key{key_of(choices), choices.microbatch};
  return known_->blocks.get(key, [&] { return newly_bounded(choices, key); });
}

std::variant<BlockBounds, Reasons> Bounds::newly_bounded(const PlanChoices& choices,
                                                         const BlocksKey& key) const {
  const auto known = planned_blocks(choices, key);
  if (const auto* reasons = std::get_if<Reasons>(&*known)) return *reasons;
  const auto& planned = std::get<PlannedBlocks>(*known);
  const RecomputeChoice& recompute = key.first.recompute;
  if (recompute == RecomputeChoice()) {
    return block_bounds(lower_blocks(planned), few_setting_, links_);
  }
  const auto lowered = lower_blocks(planned, recompute, few_setting_);
  if (const auto* reasons = std::get_if<Reasons>(&lowered)) return *reasons;
  return block_bounds(std::get<LoweredBlocks>(lowered), few_setting_, links_);
}

const BlockBounds& Bounds::plain_blocks(const PlanChoices& choices) {
  PlanChoices plain = choices;
  plain.recompute = {};
  return std::get<BlockBounds>(blocks(plain));
}

const std::variant<BlockBounds, Reasons>& Bounds::other_blocks(const PlanChoices& choices) {
  PlanChoices other = choices;
  other.recompute = other_recompute(choices.recompute);
  return blocks(other);
}

bool Bounds::has_blocks(const PlanChoices& choices) {
  return std::holds_alternative<BlockBounds>(blocks(choices)) &&
         std::holds_alternative<BlockBounds>(other_blocks(choices));
}

std::vector<std::vector<BlockRun>> Bounds::runs_of(const PlanChoices& choices) const {
  const Model& model = setting_.model;
  const std::vector<std::int64_t> of_chunks = layers_of_chunks(choices, layer_count_);
  std::vector<std::vector<BlockRun>> chunks(of_chunks.size());
  std::size_t chunk = 0;
  std::int64_t left = of_chunks.front(), recomputed = recomputed_layers(choices.recompute, left);
  std::int64_t moved = offloaded_layers(choices, left);
  const auto add = [&](std::size_t block, std::int64_t count, bool recomputes) {
    const std::int64_t away = model.blocks[block].count > 1 ? std::min(moved, count) : 0;
    moved -= away;
    if (away > 0) chunks[chunk].push_back({block, away, recomputes, true});
    if (count > away) chunks[chunk].push_back({block, count - away, recomputes});
  };
  // A chunk ends where the next layer after its own begins.
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    for (std::int64_t rest = model.blocks[b].count; rest > 0;) {
      const bool layer = model.blocks[b].count > 1;
      while (layer && left == 0 && chunk + 1 < chunks.size()) {
        left = of_chunks[++chunk];
        recomputed = recomputed_layers(choices.recompute, left);
        moved = offloaded_layers(choices, left);
      }
      const std::int64_t taken = layer && chunk + 1 < chunks.size() ? std::min(rest, left) : rest;
      const std::int64_t first = layer ? std::min(taken, recomputed) : taken;
      add(b, first, true);
      add(b, taken - first, false);
      if (layer) left -= taken, recomputed -= first;
      rest -= taken;
    }
  }
  return chunks;
}

const PipelineItems& Bounds::items(const PlanChoices& choices) {
  const std::int64_t microbatches = microbatches_of(choices);
  const bool alternates = choices.schedule != Schedule::GPipe;
  const std::tuple key{alternates ? Schedule::OneForwardOneBackward : Schedule::GPipe, choices.pp,
                       microbatches, choices.virtual_stages};
  constexpr std::size_t kMostItems = 2'000'000;
  if (item_count_ > kMostItems) {
    items_.clear();
    item_count_ = 0;
  }
  const auto [entry, added] = items_.try_emplace(key);
  if (added) {
    entry->second =
        pipeline_items(choices.schedule, choices.pp, microbatches, choices.virtual_stages);
    for (const auto& stage : entry->second.stages) item_count_ += stage.size();
  }
  return entry->second;
}

PlanBound Bounds::needed_by(const StagePlay& play, const PlanChoices& choices) const {
  const auto [needed, stage] = play.fullest();
  return {Seconds(0), needed + held_always(choices), play.host_bytes(), stage};
}

// How fast one is that finds no room nobody wants to know.
PlanBound Bounds::of(const PlanChoices& choices) {
  StagePlay play(*this, choices, work_of(choices), LeftOpen::Nothing);
  PlanBound bound = needed_by(play, choices);
  if (room_ && bound.bytes > *room_) return bound;
  bound.step = with_steps_between(play.step(), choices);
  return bound;
}

PlanBound Bounds::least_of(const PlanChoices& choices) {
  const StagePlay play(*this, choices, work_of(choices), LeftOpen::Nothing);
  PlanBound bound = needed_by(play, choices);
  if (!room_ || bound.bytes <= *room_) bound.step = least_step_of(choices);
  return bound;
}

Seconds Bounds::step_of(const PlanChoices& choices) {
  return with_steps_between(StagePlay(*this, choices, work_of(choices), LeftOpen::Kept).step(),
                            choices);
}

Seconds Bounds::least_step_of(const PlanChoices& choices) {
  ends_of(choices);
  return with_steps_between(
      StagePlay(*this, choices, work_of(choices), LeftOpen::Kept).least_step(), choices);
}

Seconds Bounds::with_steps_between(double step, const PlanChoices& choices) const {
  const std::int64_t owners =
      choices.zero > 0 ? choices.shard.value_or(choices.dp) * choices.cp : 1;
  return Seconds(step * kWholeRates) + between_steps(setting_, owners);
}

Seconds Bounds::of_any_state(const PlanChoices& choices) {
  StageWork& work = work_of(choices);
  StagePlay play(*this, choices, work, LeftOpen::State);
  if (!work.ends) work.ends = std::make_shared<StageEnds>(play.ends());
  return Seconds(std::max(work.ends->all, play.copies_s()) * kRounding + setting_.step.step_s);
}

std::shared_ptr<const StageEnds> Bounds::ends_of(const PlanChoices& choices) {
  StageWork& work = work_of(choices);
  if (!work.ends) {
    work.ends =
        std::make_shared<StageEnds>(StagePlay(*this, choices, work, LeftOpen::State).ends());
  }
  return work.ends;
}

Bytes Bounds::bytes_of(const PlanChoices& choices) {
  return StagePlay(*this, choices, work_of(choices), LeftOpen::State).fullest().bytes +
         held_always(choices);
}

StageWork& Bounds::work_of(const PlanChoices& choices) {
  constexpr std::size_t kKept = 64;
  PlanChoices key = choices;
  key.zero = 0;
  key.shard.reset();
  key.bucket = key.bucket_per_replica = Bytes();
  key.offload_optimizer = false;
  const auto found = std::ranges::find(
      works_, key, [](const auto& work) -> const PlanChoices& { return work.first; });
  if (found != works_.end()) return found->second;
  StageWork work(choices, runs_of(choices), std::get<BlockBounds>(blocks(choices)),
                 std::get<BlockBounds>(other_blocks(choices)), items(choices),
                 setting_.memory.caching_allocator);
  if (choices.recompute.kind == Recompute::Uniform && choices.recompute.layers > 1) {
    PlanChoices one = choices;
    one.recompute.layers = 1;
    work.rerun_together(std::get<BlockBounds>(blocks(one)));
  }
  if (works_.size() == kKept) works_.pop_back();
  works_.emplace_front(std::move(key), std::move(work));
  return works_.front().second;
}

}  // namespace meshwright
