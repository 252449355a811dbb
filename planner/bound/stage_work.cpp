#include "planner/bound/stage_work.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

MaxPlus power(const MaxPlus& matrix, std::int64_t count) {
  MaxPlus result = MaxPlus::unit(), square = matrix;
  for (bool first = true; count > 0; count /= 2) {
    if (count % 2 == 1) {
      result = first ? square : result.then(square);
      first = false;
    }
    if (count > 1) square = square.then(square);
  }
  return result;
}

// Layers that are rerun together keep less than any by itself.
bool is_rerun_together(const PlanChoices& choices) {
  return choices.recompute.kind == Recompute::Uniform && choices.recompute.layers > 1;
}

bool turns_at_once(const std::vector<PipelineItem>& items, std::size_t chunk) {
  const PipelineItem* before = nullptr;
  for (const PipelineItem& item : items) {
    if (item.receives) continue;
    const bool own = before && before->forward && !item.forward && before->chunk == item.chunk &&
                     before->microbatch == item.microbatch;
    if (own && static_cast<std::size_t>(item.chunk) == chunk) return true;
    before = &item;
  }
  return false;
}

}  // namespace

StageWork::StageWork(const PlanChoices& choices, std::vector<std::vector<BlockRun>> chunks,
                     const BlockBounds& recomputing, const BlockBounds& others,
                     const PipelineItems& items, bool in_order, std::vector<BlockMemory> memory)
    : costs_(recomputing),
      others_(others),
      in_order_(in_order),
      memory_(std::move(memory)),
      stages_(items.stages.size()) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    ChunkWork chunk{
        .runs = std::move(chunks[c]), .receives = c > 0, .sends = c + 1 < chunks.size()};
    chunk.turns = choices.offload_activations && turns_at_once(items.stages[c % stages_.size()], c);
    add_chunk(choices, std::move(chunk));
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) hold(s, stages_.size(), items);
}

void StageWork::add_chunk(const PlanChoices& choices, ChunkWork chunk) {
  const auto same = [&](const ChunkWork& kind) { return kind.is_like(chunk); };
  const auto found = std::ranges::find_if(kinds_, same);
  kind_of_.push_back(static_cast<std::size_t>(found - kinds_.begin()));
  if (found != kinds_.end()) return;
  add_times(chunk);
  add_memory(choices, chunk);
  kinds_.push_back(std::move(chunk));
}

void StageWork::add_times(ChunkWork& chunk) const {
  for (std::size_t r = 0; r < chunk.runs.size(); ++r) {
    const BlockRun &ahead = chunk.runs[r], &back = chunk.runs[chunk.runs.size() - 1 - r];
    const BlockWork &forward = block_of(ahead).forward, &backward = block_of(back).backward;
    const MaxPlus forwards = power(forward.advance, ahead.count);
    const MaxPlus backwards = power(backward.advance, back.count);
    chunk.forward = r == 0 ? forwards : chunk.forward.then(forwards);
    chunk.backward = r == 0 ? backwards : chunk.backward.then(backwards);
    chunk.repetitions += ahead.count;
    chunk.forward_s += static_cast<double>(ahead.count) * forward.compute_s;
    chunk.backward_s += static_cast<double>(back.count) * backward.compute_s;
    chunk.forward_transfer_s += static_cast<double>(ahead.count) * forward.transfer_s;
    chunk.backward_transfer_s += static_cast<double>(back.count) * backward.transfer_s;
    chunk.forward_ports.add(forward.ports, static_cast<double>(ahead.count));
    chunk.backward_ports.add(backward.ports, static_cast<double>(back.count));
  }
}

void StageWork::rerun_together(const BlockBounds& one_by_one) {
  for (ChunkWork& chunk : kinds_) {
    for (const BlockRun& run : chunk.runs) {
      const double again = one_by_one.blocks[run.block].backward.compute_s -
                           others_.blocks[run.block].backward.compute_s;
      chunk.rerun_s += static_cast<double>(run.count) * again;
    }
  }
}

void StageWork::add_memory(const PlanChoices& choices, ChunkWork& chunk) const {
  std::int64_t behind = chunk.repetitions;
  for (const BlockRun& run : chunk.runs) {
    behind -= run.count;
    const BlockMemory& memory = memory_of(run);
    const bool is_layer = block_of(run).layer;
    if (&run == &chunk.runs.back() && !is_layer) chunk.ahead_peak = chunk.forward_peak;
    if (is_layer && is_rerun_together(choices)) continue;
    if (run.away) {
      add_away(chunk, run, behind);
      chunk.last_away = memory.back;
      continue;
    }
    // The last repetition has most before it.
    const Bytes before = chunk.kept + memory.kept * (run.count - 1);
    chunk.forward_peak.raise(memory.forward_peak, before);
    chunk.backward_peak.raise(memory.backward_peak, before);
    chunk.backward_runs.push_back(
        {behind, run.count, memory.backward_peak.of[0][0] + before, memory.kept});
    chunk.kept += memory.kept * run.count;
    // What goes to a layer goes to the host with what that keeps.
    const bool follows = &run != &chunk.runs.back() && (&run + 1)->away;
    if (follows) chunk.kept -= std::min(memory.kept, costs_.message);
  }
  // The last layer's stays where it would come back at once; and what the first one reads may be of
  // another kind.
  if (chunk.turns) chunk.away -= std::min(chunk.away, chunk.last_away);
  chunk.away -= std::min(chunk.away, costs_.message);
  // Between chunks what comes in is kept here, and what goes out where it is read: with the layers
  // at the ends.
  if (chunk.receives && !chunk.runs.front().away) {
    chunk.kept += costs_.message;
    chunk.forward_peak.add(costs_.message);
    chunk.ahead_peak.add(costs_.message);
    add_to_backward(chunk, costs_.message);
  }
  if (chunk.sends && !chunk.runs.back().away) {
    chunk.kept -= std::min(chunk.kept, costs_.message);
    add_to_backward(chunk, Bytes() - costs_.message);
  }
}

void StageWork::add_to_backward(ChunkWork& chunk, Bytes bytes) {
  chunk.backward_peak.add(bytes);
  for (BackwardRun& run : chunk.backward_runs) run.peak += bytes;
}

// What comes back for a layer is listed before the backward of the layer behind it.
void StageWork::add_away(ChunkWork& chunk, const BlockRun& run, std::int64_t behind) const {
  const BlockMemory& memory = memory_of(run);
  chunk.away += memory.back * run.count;
  chunk.forward_peak.raise(memory.forward_use_peak);
  const auto raise = [&](const Peaks& peak, Bytes next, std::int64_t count) {
    chunk.backward_peak.raise(peak, next);
    chunk.backward_runs.push_back({behind, count, peak.of[0][0] + next, Bytes()});
  };
  if (!in_order_) return raise(memory.backward_use_peak, Bytes(), run.count);
  Bytes next;
  if (run.count > 1) {
    next = memory.back;
  } else if (&run != &chunk.runs.front() && (&run - 1)->away) {
    next = memory_of(*(&run - 1)).back;
  }
  // The last one has no other of its kind behind it.
  raise(memory.backward_peak, next, std::max<std::int64_t>(1, run.count - 1));
}

void StageWork::hold(std::size_t number, std::size_t stages, const PipelineItems& items) {
  StageHolds& stage = stages_[number];
  std::set<std::size_t> tied;
  for (std::size_t c = number; c < chunk_count(); c += stages) {
    for (const BlockRun& run : chunk(c).runs) {
      for (const BlockWeight& weight : costs_.blocks[run.block].weights) {
        stage.largest_weight = std::max(stage.largest_weight, weight.elements);
        std::int64_t& trained = weight.routed ? stage.largest_routed : stage.largest_common;
        if (!weight.frozen) trained = std::max(trained, weight.elements);
        if (weight.tied && !tied.insert(weight.number).second) continue;
        (weight.frozen ? stage.frozen : stage.elements) +=
            weight.elements * (weight.tied ? 1 : run.count);
        if (weight.routed && !weight.frozen) stage.routed += weight.elements * run.count;
        if (!weight.frozen) stage.least += weight.least * (weight.tied ? 1 : run.count);
        if (weight.routed && !weight.frozen) stage.least_routed += weight.least * run.count;
        if (weight.tied && !weight.frozen) stage.tied.push_back(weight.elements);
      }
    }
  }
  // What is kept while each kind of chunk is worked on, forward and backward, where that is most.
  std::vector<std::array<std::optional<Bytes>, 2>> beside(kinds_.size());
  Bytes kept, most, away;
  std::vector<std::int64_t> in_flight(kinds_.size(), 0);
  for (const PipelineItem& item : items.stages[number]) {
    if (item.receives) continue;
    const std::size_t kind = kind_of_[static_cast<std::size_t>(item.chunk)];
    const ChunkWork& work = kinds_[kind];
    in_flight[kind] += item.forward ? 1 : -1;
    const bool ends = static_cast<std::size_t>(item.chunk) + 1 == chunk_count();
    if (item.forward && ends && item.microbatch == 0) stage.before_end.raise(work.ahead_peak, kept);
    if (!item.forward) kept -= work.kept;
    // Copies to the host may be far behind, but none comes back before all of its entry are there.
    // What comes back first may have been there before the rest.
    if (!item.forward) stage.away = std::max(stage.away, work.away - work.last_away);
    away += item.forward ? work.away : Bytes() - work.away;
    stage.leaving = std::max(stage.leaving, away);
    std::optional<Bytes>& others = beside[kind][item.forward ? 0 : 1];
    others = std::max(others.value_or(kept), kept);
    if (item.forward) kept += work.kept;
    if (kept <= most) continue;
    most = kept;
    stage.in_flight = in_flight;
  }
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    stage.beside_backward.push_back(beside[k][1]);
    if (beside[k][0]) stage.activations.raise(kinds_[k].forward_peak, *beside[k][0]);
    if (beside[k][1]) stage.activations.raise(kinds_[k].backward_peak, *beside[k][1]);
  }
}

// All before it are forwards, and what is larger there is gathered. Gradients that are whole for a
// while may be, too: from then on nothing is said.
Bytes StageWork::apart_at_end(Bytes whole, bool sums) {
  const ClosingMemory& closing = costs_.closing;
  const Bytes above = std::max(closing.largest_ahead, whole);
  const auto [entry, added] = apart_.try_emplace({above, sums});
  if (!added) return entry->second;
  std::vector<ListedBuffer> buffers = closing.buffers;
  std::erase_if(buffers, [&](const ListedBuffer& buffer) {
    return sums && buffer.first >= closing.first_gradient;
  });
  return entry->second = apart_segments(buffers, above);
}

const std::vector<std::vector<BoundBucket>>& StageWork::buckets(Bytes most, Bytes element) {
  const auto [entry, added] = buckets_.try_emplace(most);
  for (std::size_t k = 0; added && k < kinds_.size(); ++k) {
    entry->second.push_back(cut(kinds_[k], most, element));
  }
  return entry->second;
}

// With one weight more, of a block that so many others stand before in the backward.
void StageWork::add_places(BoundBucket& bucket, const BlockWeight& weight, const ChunkWork& chunk,
                           std::int64_t repetition) {
  if (weight.uses[1]) bucket.last_used = repetition;
  for (const std::size_t back : {0, 1}) {
    if (!weight.uses[back]) continue;
    const std::int64_t before = back == 1 ? repetition : chunk.repetitions - 1 - repetition;
    const ChunkPlace place{before, *weight.uses[back]};
    bucket.uses[back] = std::min(bucket.uses[back].value_or(place), place);
  }
  bucket.completes =
      std::max(bucket.completes, {repetition, weight.completes.value_or(StepPlace{})});
}

// As lowering does: weights that are summed alike go together, chunk by chunk.
std::vector<BoundBucket> StageWork::cut(const ChunkWork& chunk, Bytes most, Bytes element) const {
  struct Open {
    BoundBucket bucket;
    Bytes size;
  };
  std::vector<BoundBucket> buckets;
  std::vector<Open> open(costs_.likenesses);
  const auto finish = [&](Open& one) {
    if (one.bucket.elements > 0) buckets.push_back(one.bucket);
    one = {};
  };
  std::int64_t repetition = 0;
  double later_s = 0;
  for (std::size_t r = chunk.runs.size(); r-- > 0;) {
    const BlockBound& block = block_of(chunk.runs[r]);
    for (std::int64_t i = 0; i < chunk.runs[r].count; ++i, ++repetition) {
      for (std::size_t w = 0; w < block.weights.size(); ++w) {
        const BlockWeight& weight = block.weights[w];
        if (weight.frozen || weight.tied) continue;
        Open& one = open[weight.likeness];
        const Bytes size = element * weight.elements;
        if (one.bucket.elements > 0 && overfills(one.size, size, most)) finish(one);
        if (one.bucket.elements == 0) one.bucket.first = repetition;
        one.size += size;
        one.bucket.elements += weight.elements;
        one.bucket.repetition = repetition;
        one.bucket.weight = w;
        one.bucket.routed = weight.routed;
        one.bucket.of_layers = one.bucket.of_layers || block.layer;
        one.bucket.forward_left_s = later_s + block.forward.compute_s - weight.read_after_s;
        add_places(one.bucket, weight, chunk, repetition);
      }
      later_s += block.forward.compute_s;
    }
  }
  for (Open& one : open) finish(one);
  std::ranges::sort(buckets, {}, [](const BoundBucket& bucket) {
    return std::pair(bucket.repetition, bucket.weight);
  });
  return buckets;
}

}  // namespace meshwright
