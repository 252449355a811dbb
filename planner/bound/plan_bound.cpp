#include "planner/bound/plan_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

#include "costmodel/model/model_costs.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

// Sums in another order differ in their last digits.
constexpr double kRounding = 1 - 1e-9;

bool is_trained(const Model& model) {
  const auto frozen = [](const Weight& weight) { return weight.frozen; };
  return std::ranges::none_of(model.shared_weights, frozen) &&
         std::ranges::none_of(model.blocks, [&](const Block& block) {
           return std::ranges::any_of(block.weights, frozen);
         });
}

// What a layer that recomputes does by itself. Where several are rerun together, nothing of it is
// counted.
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

// Of a chunk's layers, those that recompute.
std::int64_t recomputed_layers(const RecomputeChoice& recompute, std::int64_t layers) {
  const bool some = recompute.kind == Recompute::First ||
                    (recompute.kind == Recompute::Drop && recompute.layers > 0);
  return some ? std::min(recompute.layers, layers) : layers;
}

}  // namespace

Bounds::Bounds(const BatchChoice& batch, const Setting& setting, std::optional<Bytes> room)
    : batch_(batch),
      setting_(setting),
      room_(room),
      few_(few_layers(setting.model)),
      few_setting_(with_model(setting, few_)),
      links_(setting.cluster) {
  const ModelCosts costs =
      model_costs(setting.model, {.micro_batch = 1, .sequence = batch.sequence});
  flops_ = static_cast<double>(costs.linear_forward.value()) *
           static_cast<double>(batch.global_batch) * (is_trained(setting.model) ? 3 : 1);
  for (const NodeType& node : setting.cluster.node_types) {
    peak_ = std::max(peak_, peak_of(node.device, batch.precision).value());
  }
}

const std::variant<BlockBounds, Reasons>& Bounds::blocks(const PlanChoices& choices) {
  PlanChoices block = choices;
  block.recompute = layer_recompute(choices.recompute);
  // Without a place neighbours stand in a node as far as it goes.
  if (!choices.place.empty()) {
    const auto share = std::ranges::find(choices.place, "tp", &NodeShare::axis);
    block.place = {{"tp", share == choices.place.end() ? 1 : share->count}};
  }
  const BlocksKey key{choices.tp, choices.microbatch, choices.sequence_parallel,
                      block.place.empty() ? 0 : block.place.front().count,
                      to_text(block.recompute)};
  const auto [entry, added] = blocks_.try_emplace(key);
  if (added) entry->second = block_bounds(block, batch_, few_setting_, links_);
  return entry->second;
}

std::vector<std::vector<BlockRun>> Bounds::runs_of(const PlanChoices& choices) const {
  const Model& model = setting_.model;
  std::int64_t layers = 0;
  for (const Block& block : model.blocks) layers += block.count > 1 ? block.count : 0;
  const std::vector<std::int64_t> of_chunks = layers_of_chunks(choices, layers);
  std::vector<std::vector<BlockRun>> chunks(of_chunks.size());
  std::size_t chunk = 0;
  std::int64_t left = of_chunks.front(), recomputed = recomputed_layers(choices.recompute, left);
  const auto add = [&](std::size_t block, std::int64_t count, bool recomputes) {
    if (count > 0) chunks[chunk].push_back({block, count, recomputes});
  };
  // A chunk ends where the next layer after its own begins.
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    for (std::int64_t rest = model.blocks[b].count; rest > 0;) {
      const bool layer = model.blocks[b].count > 1;
      while (layer && left == 0 && chunk + 1 < chunks.size()) {
        left = of_chunks[++chunk];
        recomputed = recomputed_layers(choices.recompute, left);
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
  const std::int64_t microbatches = batch_.global_batch / (choices.dp * choices.microbatch);
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

PlanBound Bounds::of(const PlanChoices& choices) {
  StagePlay play(*this, choices, work_of(choices), false);
  const Bytes bytes = play.bytes() + setting_.memory.context;
  // Nobody wants to know how fast it is.
  if (room_ && bytes > *room_) return {Seconds(0), bytes, play.host_bytes()};
  const std::int64_t owners = choices.zero > 0 ? choices.shard.value_or(choices.dp) : 1;
  const Seconds step = Seconds(play.step() * kRounding) + between_steps(setting_, owners);
  return {step, bytes, play.host_bytes()};
}

Seconds Bounds::of_any_state(const PlanChoices& choices) {
  StageWork& work = work_of(choices);
  StagePlay play(*this, choices, work, true);
  if (!work.end) work.end = play.step();
  return Seconds(std::max(*work.end, play.copies_s()) * kRounding + setting_.step.step_s);
}

Bytes Bounds::bytes_of(const PlanChoices& choices) {
  return StagePlay(*this, choices, work_of(choices), true).bytes() + setting_.memory.context;
}

StageWork& Bounds::work_of(const PlanChoices& choices) {
  constexpr std::size_t kKept = 64;
  PlanChoices key = choices;
  key.zero = 0;
  key.bucket = key.bucket_per_replica = Bytes();
  key.offload_optimizer = false;
  const auto found = std::ranges::find(
      works_, key, [](const auto& work) -> const PlanChoices& { return work.first; });
  if (found != works_.end()) return found->second;
  PlanChoices plain = choices;
  plain.recompute = {};
  StageWork work(choices, runs_of(choices), std::get<BlockBounds>(blocks(choices)),
                 std::get<BlockBounds>(blocks(plain)), items(choices));
  if (works_.size() == kKept) works_.pop_back();
  works_.emplace_front(std::move(key), std::move(work));
  return works_.front().second;
}

PlanBound Bounds::of_any(const PlanChoices& choices) {
  PlanChoices plain = choices;
  plain.recompute = {};
  const BlockBounds& costs = std::get<BlockBounds>(blocks(plain));
  double work = 0, layer = 0;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    const BlockBound& block = costs.blocks[b];
    const auto count = static_cast<double>(setting_.model.blocks[b].count);
    const double both = block.forward.advance.rows[kCompute][kCompute] +
                        block.backward.advance.rows[kCompute][kCompute];
    work += count * both;
    if (block.layer) layer = layer == 0 ? both : std::min(layer, both);
  }
  const auto microbatches =
      static_cast<double>(batch_.global_batch / (choices.dp * choices.microbatch));
  const double stages = static_cast<double>(choices.pp);
  // On the way to a stage the first micro-batch goes through a layer at least of every stage before
  // it, and back: half of all, for the stage in the middle.
  const double ahead = (stages - 1) / 2 * layer;
  PlanBound bound{
      Seconds((work * microbatches / stages + ahead) * kRounding + setting_.step.step_s),
      setting_.memory.context, Bytes()};
  return bound;
}

std::vector<std::int64_t> Bounds::balanced_layers(const PlanChoices& choices) {
  PlanChoices plain = choices;
  plain.recompute = {};
  const BlockBounds& costs = std::get<BlockBounds>(blocks(plain));
  const auto both = [](const BlockBound& block) {
    return block.forward.advance.rows[kCompute][kCompute] +
           block.backward.advance.rows[kCompute][kCompute];
  };
  // Of each layer, the first and the last with what stands around them.
  std::vector<double> layers;
  double before = 0;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    const std::int64_t count = setting_.model.blocks[b].count;
    for (std::int64_t i = 0; i < count; ++i) {
      if (count > 1) layers.push_back(std::exchange(before, 0));
      double& time = layers.empty() ? before : layers.back();
      time += both(costs.blocks[b]);
    }
  }
  const auto microbatches =
      static_cast<double>(batch_.global_batch / (choices.dp * choices.microbatch));
  const auto stages = static_cast<std::size_t>(choices.pp);
  // As many as end by then, stage after stage, one at least for each that is left.
  const auto fill = [&](double end) {
    std::vector<std::int64_t> counts(stages, 0);
    double ahead = 0;
    std::size_t next = 0;
    for (std::size_t s = 0; s < stages; ++s) {
      double work = 0;
      const std::size_t left = stages - 1 - s;
      while (next + left < layers.size()) {
        const double more = work + layers[next];
        if (counts[s] > 0 && ahead + microbatches * more > end) break;
        work = more;
        ++next;
        ++counts[s];
      }
      ahead += work;
    }
    counts.back() += static_cast<std::int64_t>(layers.size() - next);
    return counts;
  };
  const auto end_of = [&](const std::vector<std::int64_t>& counts) {
    double ahead = 0, end = 0;
    std::size_t next = 0;
    for (const std::int64_t count : counts) {
      double work = 0;
      for (std::int64_t i = 0; i < count; ++i) work += layers[next++];
      end = std::max(end, ahead + microbatches * work);
      ahead += work;
    }
    return end;
  };
  std::vector<std::int64_t> best =
      equal_layers(static_cast<std::int64_t>(layers.size()), choices.pp);
  double high = end_of(best), low = 0;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    const auto counts = fill(middle);
    const double end = end_of(counts);
    if (end < end_of(best)) best = counts;
    (end <= middle ? high : low) = middle;
  }
  return best;
}

const Bounds::SampleSeconds& Bounds::sample(const PlanChoices& choices, std::int64_t microbatch) {
  const auto [entry, added] = samples_.try_emplace({choices.tp, microbatch});
  if (!added) return entry->second;
  const auto [known, first] = kernels_.try_emplace(choices.tp);
  if (first) {
    PlanChoices any_place = choices;
    any_place.place.clear();
    any_place.sequence_parallel = false;
    auto found = block_kernels(any_place, batch_, few_setting_);
    if (auto* kernels = std::get_if<std::vector<BlockKernel>>(&found)) {
      known->second = std::move(*kernels);
    }
  }
  const DeviceId device(0);
  std::vector<double> blocks(setting_.model.blocks.size(), 0);
  for (const BlockKernel& one : known->second) {
    // With the sequence cut, kernels that tensor parallelism repeats have a part of it each.
    const KernelKind kind = one.kernel.kind;
    if (choices.tp > 1 && kind != KernelKind::Matmul && kind != KernelKind::Attention) continue;
    blocks[one.block] +=
        setting_.costs->kernel(with_samples(one, microbatch), batch_.precision, device)
            .time.value();
  }
  SampleSeconds& seconds = entry->second;
  const double share = 1 / (static_cast<double>(microbatch) * speed_of(setting_.cluster, device));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t count = setting_.model.blocks[b].count;
    seconds.all += static_cast<double>(count) * blocks[b] * share;
    if (count == 1) continue;
    const double layer = blocks[b] * share;
    seconds.layer = seconds.layer == 0 ? layer : std::min(seconds.layer, layer);
  }
  return seconds;
}

Seconds Bounds::of_kernels(const PlanChoices& choices) {
  const auto samples = static_cast<double>(batch_.global_batch / choices.dp);
  const auto stages = static_cast<double>(choices.pp);
  const SampleSeconds& seconds = sample(choices, choices.microbatch);
  // As in of_any.
  const double ahead = (stages - 1) / 2 * seconds.layer * static_cast<double>(choices.microbatch);
  return Seconds((seconds.all * samples / stages + ahead) * kRounding + setting_.step.step_s);
}

Seconds Bounds::of_any_microbatch(const PlanChoices& choices) {
  const std::int64_t samples = batch_.global_batch / choices.dp;
  std::optional<Seconds> least;
  PlanChoices one = choices;
  for (one.microbatch = 1; one.microbatch <= samples; ++one.microbatch) {
    if (samples % one.microbatch != 0) continue;
    const Seconds step = of_kernels(one);
    least = std::min(least.value_or(step), step);
  }
  return *least;
}

Seconds Bounds::of_mesh(const PlanChoices& choices) const {
  const auto devices = static_cast<double>(device_count(choices));
  return Seconds(flops_ / (peak_ * devices) * kRounding + setting_.step.step_s);
}

}  // namespace meshwright
