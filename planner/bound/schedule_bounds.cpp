// Bounds of plans of which the blocks are known, and their schedule, whatever is kept and done
// about their state.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/resolve.h"

namespace meshwright {
namespace {

// From one moment to the same of the next block, forward and backward.
double both_ways(const BlockBound& block, std::size_t moment) {
  return block.forward.advance.from(moment, moment) + block.backward.advance.from(moment, moment);
}

}  // namespace

PlanBound Bounds::of_any(const PlanChoices& choices) {
  const BlockBounds& costs = plain_blocks(choices);
  double work = 0, layer = 0;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    const BlockBound& block = costs.blocks[b];
    const auto count = static_cast<double>(setting_.model.blocks[b].count);
    const double both = both_ways(block, kCompute);
    work += count * both;
    if (block.layer) layer = layer == 0 ? both : std::min(layer, both);
  }
  const auto microbatches = static_cast<double>(microbatches_of(choices));
  const double stages = static_cast<double>(choices.pp);
  // On the way to a stage the first micro-batch goes through a layer at least of every stage before
  // it, and back: half of all, for the stage in the middle.
  const double ahead = (stages - 1) / 2 * layer;
  PlanBound bound{
      Seconds((work * microbatches / stages + ahead) * kRounding + setting_.step.step_s),
      held_always(choices), Bytes()};
  return bound;
}

// Before a chunk does anything the first micro-batch has gone through all chunks before it, and
// after it the last one goes back: the last thing a chunk does is a backward, and what that gives
// away may be there a little before it ends. In between all micro-batches are worked on; a stage's
// first chunk waits least. What it does stands in the order of its items.
StageEnds Bounds::least_ends(const PlanChoices& choices) {
  const BlockBounds& costs = plain_blocks(choices);
  const auto runs = runs_of(choices);
  const auto stages = static_cast<std::size_t>(choices.pp);
  double early = 0, unasked = 0;  // before a backward's end, and of a forward without its input
  for (const BlockBound& block : costs.blocks) {
    if (!block.layer) continue;  // a chunk with another before it begins with a layer
    const MaxPlus &back = block.backward.advance, &ahead = block.forward.advance;
    early = std::max(early, back.from(kCompute, kCompute) - back.from(kCompute, kBoundary));
    unasked = std::max(unasked, ahead.from(kCompute, kCompute) - ahead.from(kBoundary, kCompute));
  }
  struct Chunk {
    double forward = 0, backward = 0;
    double through = 0, through_both = 0;  // from what it is given to what it gives away
    PortLoad ports = {};                   // of the backward
  };
  const auto again = again_in_layers(choices);
  std::vector<Chunk> chunks(runs.size());
  std::vector<double> of_stages(stages, 0);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (const BlockRun& run : runs[c]) {
      const BlockBound& block = costs.blocks[run.block];
      const auto count = static_cast<double>(run.count);
      chunks[c].forward += count * block.forward.advance.from(kCompute, kCompute);
      chunks[c].backward += count * block.backward.advance.from(kCompute, kCompute);
      if (!again.empty()) {
        const auto& [first_s, other_s] = again[run.block];
        chunks[c].backward += count * (run.recomputes ? first_s : other_s);
      }
      chunks[c].ports.add(block.backward.ports, count);
      // What stands before the layers and behind them has no way through.
      if (!block.layer) continue;
      chunks[c].through += count * block.forward.advance.from(kBoundary, kBoundary);
      chunks[c].through_both += count * both_ways(block, kBoundary);
    }
    of_stages[c % stages] += chunks[c].forward + chunks[c].backward;
  }
  const auto microbatches = static_cast<double>(microbatches_of(choices));
  Prices& prices = prices_of(choices);
  const auto message_s = [&](std::size_t from, std::size_t to) {
    return send_price(prices, choices, static_cast<std::int64_t>(from % stages),
                      static_cast<std::int64_t>(to % stages), costs.message)
        .seconds;
  };
  StageEnds ends;
  double ahead = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const double work = c < stages ? of_stages[c] : chunks[c].forward + chunks[c].backward;
    ends.all = std::max(ends.all, microbatches * work + std::max(0.0, ahead - early));
    ahead += chunks[c].through_both;
    if (stages > 1) ahead += message_s(c, c + 1) + message_s(c + 1, c);
  }
  // Of many micro-batches it takes longer to write the order than to play what is left otherwise,
  // and sums take less of a step.
  constexpr double kMostEntries = 2000;
  if (microbatches * static_cast<double>(chunks.size()) > kMostEntries) return ends;
  const PipelineOrder order =
      order_of(choices.schedule, choices.pp, microbatches_of(choices), choices.virtual_stages);
  const auto work_of = [&](const OrderEntry& entry) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(entry.chunk)];
    return entry.kind == EntryKind::Forward ? chunk.forward : chunk.backward;
  };
  double begin = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    StageBackwards& stage = ends.backwards.emplace_back();
    stage.first = std::max(0.0, begin - unasked);
    stage.last = stage.first + microbatches * of_stages[s];
    for (const OrderEntry& entry : order[s]) {
      if (entry.kind != EntryKind::Forward) break;
      stage.first += work_of(entry);
    }
    double left = 0;
    std::set<std::int32_t> ended;  // chunks, seen from the end
    for (std::size_t i = order[s].size(); i-- > 0 && ended.size() < chunks.size() / stages;) {
      left += work_of(order[s][i]);
      if (order[s][i].kind != EntryKind::Forward) ended.insert(order[s][i].chunk);
    }
    stage.last -= left;
    for (std::size_t c = s; c < chunks.size(); c += stages) {
      stage.ports.add(chunks[c].ports, microbatches);
    }
    begin += chunks[s].through + (stages > 1 ? message_s(s, s + 1) : 0);
  }
  return ends;
}

std::vector<std::int64_t> Bounds::balanced_layers(const PlanChoices& choices) {
  const BlockBounds& costs = plain_blocks(choices);
  // Of each layer, the first and the last with what stands around them.
  std::vector<double> layers;
  double before = 0;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    const std::int64_t count = setting_.model.blocks[b].count;
    for (std::int64_t i = 0; i < count; ++i) {
      if (count > 1) layers.push_back(std::exchange(before, 0));
      double& time = layers.empty() ? before : layers.back();
      time += both_ways(costs.blocks[b], kCompute);
    }
  }
  const auto microbatches = static_cast<double>(microbatches_of(choices));
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

}  // namespace meshwright
