#include "planner/bound/block_bounds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/checked.h"
#include "planner/bound/block_memory.h"
#include "planner/bound/layer_ops.h"
#include "planner/bound/stretch_play.h"
#include "simulator/choices/recompute_segments.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/lowering/check_recompute.h"

namespace meshwright {
namespace {

constexpr std::int64_t kFewLayers = 3;

// Numbers that the block's backward is the first to use of what the forward left come back in the
// order in which they were computed.
void add_copies(BlockBound& cost, const PricedProgram& priced, const Fragment& fragment,
                Precision precision, const Stretch& backward) {
  const Program& program = priced.program();
  std::vector<std::optional<std::size_t>> forward(program.buffers.size()), back = forward;
  for (std::size_t t = program.tasks.size(); t-- > 0;) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      (t < priced.forward_end() ? forward : back)[id.index()] = t;
    }
  }
  std::size_t last = 0;  // that comes back, by its first use in the forward
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const FragmentBuffer& buffer = fragment.buffers[b];
    const bool comes = forward[b] && back[b] && backward.first <= *back[b] &&
                       *back[b] < backward.end && buffer.buffer.element != BufferElement::Index &&
                       std::holds_alternative<OfMicrobatch>(buffer.holds);
    if (!comes) continue;
    cost.memory.back += expected_bytes_of(buffer.buffer, precision);
    if (*forward[b] < last) continue;
    last = *forward[b];
    cost.after_back_s = 0;
    for (std::size_t t = *back[b]; t < backward.end; ++t) {
      if (priced.computes(t)) cost.after_back_s += priced.seconds(t);
    }
  }
}

// Kernels of a block's forward that stand before the first that uses an op's weight.
double seconds_before(const PricedProgram& priced, const Fragment& fragment, const Stretch& forward,
                      std::size_t op, WeightId id) {
  const Program& program = priced.program();
  double seconds = 0;
  for (std::size_t t = forward.first; t < forward.end; ++t) {
    for (const BufferId buffer : program.operands_of(program.tasks[t])) {
      const auto* weight = std::get_if<WeightOfOp>(&fragment.buffers[buffer.index()].holds);
      if (weight && weight->op == op && weight->weight == id) return seconds;
    }
    if (priced.computes(t)) seconds += priced.seconds(t);
  }
  return seconds;
}

void add_weights(BlockBound& cost, const PricedProgram& priced, const Fragment& fragment,
                 const StretchPlay& play, const PlannedGraph& planned, const Plan& plan,
                 const Stretch& forward, const Stretch& backward, const OpRange& ops,
                 const std::map<WeightId, std::size_t>& uses,
                 std::map<std::vector<AxisId>, std::size_t>& likenesses) {
  const Placement placement(plan, priced.program().device);
  const Placement last(plan, plan.slots.front().mesh.devices().back());
  const Shards shards(planned, plan, placement), least(planned, plan, last);
  const bool even = least_part(planned, plan) == 1;
  for (std::size_t op = ops.end_op; op-- > ops.first_op;) {
    const auto& weights = planned.graph.ops[op].weights;
    for (std::size_t w = 0; w < weights.size(); ++w) {
      BlockWeight weight{.number = weights[w].index(),
                         .frozen = planned.graph.weights[weights[w].index()].frozen,
                         .routed = is_routed(planned, plan, op),
                         .tied = uses.at(weights[w]) > 1,
                         .read_after_s = seconds_before(priced, fragment, forward, op, weights[w])};
      weight.elements = checked_product(shards.sizes(planned.op(op).weights[w]));
      weight.least =
          even ? weight.elements : checked_product(least.sizes(planned.op(op).weights[w]));
      const auto axes = weight.frozen ? std::vector<AxisId>() : planned.gradient_axes(op, w);
      weight.likeness = likenesses.try_emplace(axes, likenesses.size()).first->second;
      double before = 0;
      for (std::size_t t = backward.first; t < backward.end; ++t) {
        if (priced.computes(t)) before += priced.seconds(t);
        const auto& gradients = priced.fragment_task(t).gradients;
        const bool adds = std::ranges::any_of(gradients, [&](const WeightOfOp& gradient) {
          return gradient.op == op && gradient.weight == weights[w];
        });
        if (!adds) continue;
        weight.complete = play.finish(t);
        weight.compute_before_s = before;
      }
      cost.weights.push_back(weight);
    }
  }
}

// Bytes of what goes from the first repetition of a layer to the second.
Bytes message_bytes(const PlannedGraph& planned, const Plan& plan, const OpRange& ops) {
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  const Shards shards(planned, plan, placement);
  Bytes bytes;
  for (std::size_t t = 0; t < planned.producer.size(); ++t) {
    if (planned.producer[t] >= ops.end_op || planned.producer[t] < ops.first_op) continue;
    const auto& readers = planned.readers[t];
    if (readers.empty() || readers.back() < ops.end_op) continue;
    bytes += bytes_per_element(BufferElement::Real, plan.precision) *
             checked_product(shards.sizes(planned.tensors[t]));
  }
  return bytes;
}

// One micro-batch on the devices of one tensor group, and on those of replicas that share experts
// with it.
PlanChoices block_choices(const PlanChoices& choices) {
  PlanChoices one = choices;
  one.dp = replicas_sharing_experts(choices);
  one.pp = one.virtual_stages = 1;
  one.schedule = Schedule::OneForwardOneBackward;
  one.zero = 0;
  one.shard.reset();
  one.layers.clear();
  one.offload_activations = one.offload_optimizer = false;
  return one;
}

BatchChoice block_batch(const BatchChoice& batch, const PlanChoices& one) {
  BatchChoice few_samples = batch;
  few_samples.global_batch = one.microbatch * one.dp;
  return few_samples;
}

Fragment lower_all(const PlannedGraph& planned, const Plan& plan) {
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  return lower_fragment(planned, plan, placement, {0, planned.graph.ops.size()},
                        FragmentEdges::Given);
}

}  // namespace

std::vector<BlockOps> block_ops(const Model& model) {
  std::vector<BlockOps> blocks;
  std::size_t first = 0;
  for (const Block& block : model.blocks) {
    // Not the first where there is another: that one reads what another block leaves.
    const std::size_t middle = first + (block.count > 1 ? block.ops.size() : 0);
    blocks.push_back({{middle, middle + block.ops.size()}, block.count > 1});
    first += block.ops.size() * static_cast<std::size_t>(block.count);
  }
  return blocks;
}

Setting with_model(const Setting& setting, const Model& model) {
  return {.model = model,
          .cluster = setting.cluster,
          .costs = setting.costs,
          .engine = setting.engine,
          .step = setting.step,
          .defaults = setting.defaults,
          .memory = setting.memory};
}

Model few_layers(const Model& model) { return with_layers(model, kFewLayers); }

Model with_layers(Model model, std::int64_t layers) {
  for (Block& block : model.blocks) {
    if (block.count <= layers) continue;
    block.count = layers;
    for (Op& op : block.ops) op.names.resize(static_cast<std::size_t>(layers));
    for (Weight& weight : block.weights) weight.names.resize(static_cast<std::size_t>(layers));
  }
  return model;
}

std::variant<PlannedBlocks, Reasons> plan_blocks(const PlanChoices& choices,
                                                 const BatchChoice& batch, const Setting& few) {
  Reasons problems;
  check_tensor(problems, choices, batch);
  if (!problems.empty()) return problems;
  PlannedBlocks blocks{.choices = block_choices(choices)};
  const BatchChoice own = block_batch(batch, blocks.choices);
  problems = check_choices(blocks.choices, own, few.model, few.cluster);
  if (!problems.empty()) return problems;
  blocks.plan = std::make_shared<const Plan>(
      resolve(blocks.choices, own, few.model, few.cluster, *few.costs));
  auto graph = graph_of_checked(*blocks.plan, few.model, few.cluster);
  if (auto* reasons = std::get_if<Reasons>(&graph)) return std::move(*reasons);
  blocks.graph = std::make_shared<const PlannedGraph>(std::get<PlannedGraph>(std::move(graph)));
  return blocks;
}

LoweredBlocks lower_blocks(const PlannedBlocks& planned) {
  return {.planned = planned,
          .plan = *planned.plan,
          .fragment = lower_all(*planned.graph, *planned.plan)};
}

std::variant<LoweredBlocks, Reasons> lower_blocks(const PlannedBlocks& planned,
                                                  const RecomputeChoice& recompute,
                                                  const Setting& few) {
  PlanChoices choices = planned.choices;
  choices.recompute = recompute;
  Reasons problems;
  check_dropped(problems, choices, few.model);
  if (!problems.empty()) return problems;
  LoweredBlocks blocks{.planned = planned, .plan = *planned.plan, .fragment = {}};
  blocks.plan.recompute = recompute_segments(choices, few.model, blocks.plan.chunks);
  problems = check_recompute(blocks.plan, planned.graph->graph);
  if (!problems.empty()) return problems;
  blocks.fragment = lower_all(*planned.graph, blocks.plan);
  return blocks;
}

Fragment lower_twice(const LoweredBlocks& blocks) {
  Plan plan = blocks.plan;
  plan.micro_batch *= 2;
  plan.global_batch *= 2;
  return lower_all(*blocks.planned.graph, plan);
}

std::vector<LayerOp> layer_ops(const PlanChoices& choices, const BatchChoice& batch,
                               const Setting& setting) {
  const LinkMap links(setting.cluster);
  const Model few_model = few_layers(setting.model);
  const Setting few = with_model(setting, few_model);
  const auto made = plan_blocks(choices, batch, few);
  const auto ranges = block_ops(few_model);
  const auto& kinds = setting.model.blocks;
  const auto most = std::ranges::max_element(kinds, {}, &Block::count);
  if (!std::holds_alternative<PlannedBlocks>(made) || most == kinds.end() || most->count < 2) {
    return {};
  }
  const auto layer = ranges.begin() + (most - kinds.begin());
  const LoweredBlocks blocks = lower_blocks(std::get<PlannedBlocks>(made));
  const Plan& plan = blocks.plan;
  const PlannedGraph& planned = *blocks.planned.graph;
  const Fragment& fragment = blocks.fragment;
  const PricedProgram priced(fragment, plan, few, links);
  std::vector<LayerOp> ops(layer->ops.end_op - layer->ops.first_op);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t op = layer->ops.first_op + i;
    // Of "layers.1.attention.norm" what its pattern "layers.*.attention.norm" has behind the star.
    const std::string& pattern = planned.patterns[op];
    const auto star = pattern.find("*.");
    const std::size_t within = star == pattern.npos ? 0 : pattern.size() - (star + 2);
    const std::size_t layer_name = planned.graph.ops[op].name.size() - within;
    for (const TensorId output : planned.graph.ops[op].outputs) {
      ops[i].tensors.push_back(planned.graph.tensors[output.index()].name.substr(layer_name));
    }
    for (const TensorId input : planned.graph.ops[op].inputs) {
      const std::size_t producer = planned.producer[input.index()];
      if (layer->ops.contains(producer)) ops[i].inputs.push_back(producer - layer->ops.first_op);
    }
  }
  for (std::size_t t = 0; t < priced.forward_end(); ++t) {
    const std::size_t op = priced.fragment_task(t).op;
    if (layer->ops.contains(op)) ops[op - layer->ops.first_op].seconds += priced.seconds(t);
  }
  for (const BufferLife& life : lives_of(priced, fragment, plan.precision)) {
    if (life.size == Bytes() || life.first >= priced.forward_end()) continue;
    const std::size_t op = priced.fragment_task(life.first).op;
    if (layer->ops.contains(op) && life.last >= priced.forward_end()) {
      ops[op - layer->ops.first_op].kept += life.size;
    }
  }
  // What the layer leaves is its last op's, and the next one's to keep.
  if (!ops.empty()) ops.back().kept = Bytes();
  return ops;
}

double least_part(const PlannedGraph& planned, const Plan& plan) {
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  const Shards shards(planned, plan, placement);
  double least = 1;
  for (const OpPlan& op : plan.ops) {
    double part = 1;
    for (const auto& [dim, sharding] : op.work) {
      const std::int64_t parts = placement.mesh().size(sharding.axes);
      const std::int64_t each = shards.whole(dim) / parts;
      if (each * parts == shards.whole(dim)) continue;
      part *= static_cast<double>(each) / static_cast<double>(each + 1);
    }
    least = std::min(least, part);
  }
  return least;
}

BlockBounds block_bounds(const LoweredBlocks& blocks, const Setting& few, const LinkMap& links) {
  const Plan& plan = blocks.plan;
  const PlannedGraph& planned = *blocks.planned.graph;
  const Fragment& fragment = blocks.fragment;
  const PricedProgram priced(fragment, plan, few, links);
  const Stretch forward{0, priced.forward_end()};
  const Stretch backward{priced.forward_end(), priced.program().tasks.size()};
  const auto lives = lives_of(priced, fragment, plan.precision);
  const auto uses = uses_of_weights(planned.graph);

  BlockBounds costs;
  std::map<std::vector<AxisId>, std::size_t> likenesses;
  for (const BlockOps& block : block_ops(few.model)) {
    BlockBound& cost = costs.blocks.emplace_back();
    cost.layer = block.layer;
    const Stretch ahead = stretch_of(fragment.forward, forward.first, block.ops);
    const Stretch back = stretch_of(fragment.backward, backward.first, block.ops);
    StretchPlay play_ahead(priced, forward, ahead);
    cost.forward = play_ahead.play();
    StretchPlay play(priced, backward, back);
    cost.backward = play.play();
    const auto fetched =
        fetched_by(priced, fragment, planned, plan, block.ops, uses, few.memory.caching_allocator);
    add_memory(cost, priced, lives, fetched, ahead, back, block.ops);
    if (plan.recompute.empty()) {
      const auto least =
          fetched_at_least(priced, fragment, planned, plan, block.ops, uses, fetched);
      cost.least = least_memory(cost, priced, lives, least, ahead, back);
    }
    add_copies(cost, priced, fragment, plan.precision, back);
    add_weights(cost, priced, fragment, play, planned, plan, ahead, back, block.ops, uses,
                likenesses);
    cost.steps[0] = block_steps(priced, fragment, play_ahead, cost.weights);
    cost.steps[1] = block_steps(priced, fragment, play, cost.weights);
    const bool closes = block.ops.end_op == planned.graph.ops.size() && !block.layer;
    if (closes) costs.closing = closing_memory(priced, fragment, plan.precision, ahead, back);
    if (block.layer && costs.message == Bytes()) {
      costs.message = message_bytes(planned, plan, block.ops);
    }
  }
  costs.likenesses = likenesses.size();
  return costs;
}

}  // namespace meshwright
