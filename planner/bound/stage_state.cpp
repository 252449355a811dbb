// What stages do about weights and their state: buckets, sums over replicas, updates, copies.
#include <algorithm>

#include "planner/bound/stage_play.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
// As lowering does: weights that are summed alike go together, chunk by chunk.
void StagePlay::cut_buckets(Chunk& chunk) const {
  struct Open {
    Bucket bucket;
    Bytes size;
  };
  const Bytes most = bucket_of(choices_);
  const Bytes element = bytes_per_element(BufferElement::Real, element_plan_.precision);
  std::vector<Open> open(costs_.likenesses);
  const auto finish = [&](Open& one) {
    if (one.bucket.elements > 0) chunk.buckets.push_back(one.bucket);
    one = {};
  };
  std::int64_t repetition = 0;
  for (std::size_t r = chunk.runs.size(); r-- > 0;) {
    const BlockBound& block = block_of(chunk.runs[r]);
    for (std::int64_t i = 0; i < chunk.runs[r].count; ++i, ++repetition) {
      for (std::size_t w = 0; w < block.weights.size(); ++w) {
        const BlockWeight& weight = block.weights[w];
        if (weight.frozen || weight.tied) continue;
        Open& one = open[weight.likeness];
        const Bytes size = element * weight.elements;
        if (one.bucket.elements > 0 && overfills(one.size, size, most)) finish(one);
        one.size += size;
        one.bucket.elements += weight.elements;
        one.bucket.repetition = repetition;
        one.bucket.weight = w;
        one.bucket.of_layers = one.bucket.of_layers || block.layer;
      }
    }
  }
  for (Open& one : open) finish(one);
  std::ranges::sort(chunk.buckets, {}, [](const Bucket& bucket) {
    return std::pair(bucket.repetition, bucket.weight);
  });
}

// A backward of a chunk, block by block: buckets are complete on the way. Returns the state after
// it.
LaneTimes StagePlay::finish_gradients(std::size_t number, const PipelineItem& item) {
  Stage& stage = stages_[number];
  Chunk& chunk = chunks_[static_cast<std::size_t>(item.chunk)];
  LaneTimes state = stage.state;
  double done = stage.done_s;
  auto next = chunk.buckets.begin();
  std::int64_t repetition = 0;
  for (std::size_t r = chunk.runs.size(); r-- > 0;) {
    const BlockBound& block = block_of(chunk.runs[r]);
    for (std::int64_t i = 0; i < chunk.runs[r].count; ++i, ++repetition) {
      double held = kNever;
      for (; next != chunk.buckets.end() && next->repetition == repetition; ++next) {
        const BlockWeight& weight = block.weights[next->weight];
        Sync sync{.ready = at(weight.complete, state),
                  .done_s = done + weight.compute_before_s,
                  .elements = next->elements,
                  .of_layers = next->of_layers};
        if (next->price == kNever) {
          price(number, sync);
          next->price = sync.price;
        }
        sync.price = next->price;
        sync.lost_s = sync.price * stage.loss;
        if (item.last) stage.syncs.push_back(sync);
        if (choices_.zero < 2 || !choices_.overlap) continue;
        // What is scattered is added to the own part when the next bucket is complete.
        held = std::max(held, stage.scattered + block.backward.compute_s - weight.compute_before_s);
        stage.scattered = std::max(stage.scattered, sync.ready) + sync.price;
      }
      if (item.last) note_tied(stage, block, state, done);
      state = block.backward.advance(state);
      state[kCompute] = std::max(state[kCompute], held);
      done += block.backward.compute_s;
    }
  }
  return state;
}

void StagePlay::note_tied(Stage& stage, const BlockBound& block, const LaneTimes& state,
                          double done) const {
  for (const BlockWeight& weight : block.weights) {
    if (weight.frozen || !weight.tied) continue;
    Sync& sync = stage.tied[weight.number];
    // Gradients of several ops of a device are added when all else is done.
    sync.ready = sync.elements > 0 ? kNotSent : at(weight.complete, state);
    sync.done_s = done + weight.compute_before_s;
    sync.elements = weight.elements;
    sync.tied = true;
  }
}

void StagePlay::price(std::size_t number, Sync& sync) {
  const auto kind = choices_.zero > 0 ? TransferKind::ReduceScatter : TransferKind::AllReduce;
  sync.price = bounds_.replica_price(prices_, kind, choices_, static_cast<std::int64_t>(number),
                                     padded(sync.elements, choices_.zero > 0 ? choices_.dp : 1),
                                     gradient_element(element_plan_));
  sync.lost_s = sync.price * stages_[number].loss;
}

void StagePlay::add_tied(std::size_t number) {
  Stage& stage = stages_[number];
  for (auto& [weight, sync] : stage.tied) {
    if (sync.ready == kNotSent) {
      sync.ready = stage.state[kCompute];
      sync.done_s = stage.done_s;
    }
    price(number, sync);
    stage.syncs.push_back(sync);
  }
}

// When all gradients of a stage are summed and all its kernels are done.
double StagePlay::end_of_stage(const Stage& stage) const {
  double lane = kNever, end = stage.state[kCompute], left = 0;
  for (const Sync& sync : stage.syncs) {
    lane = std::max(lane, sync.ready) + sync.price;
  }
  // The norm waits for all of them, and kernels are slowed until then.
  for (std::size_t i = stage.syncs.size(); i-- > 0;) {
    const Sync& sync = stage.syncs[i];
    left += sync.lost_s;
    end = std::max(end, sync.ready + (stage.done_s - sync.done_s) + left);
  }
  return std::max(lane, end);
}

double StagePlay::update_s(const Stage& stage) {
  double seconds = 0;
  for (const std::int64_t elements : stage.buckets) {
    seconds += bounds_.state_price(KernelKind::AdamW, choices_, owned(elements));
  }
  return seconds;
}

// Of all weights, after their update.
double StagePlay::gathers_s(std::size_t number) {
  double seconds = 0;
  for (const Sync& sync : stages_[number].syncs) seconds += gather_price(number, sync);
  return seconds;
}

double StagePlay::gather_price(std::size_t number, const Sync& sync) {
  return bounds_.replica_price(prices_, TransferKind::AllGather, choices_,
                               static_cast<std::int64_t>(number),
                               padded(sync.elements, choices_.dp), BufferElement::Real);
}

// What the lane between replicas has to do in a step.
double StagePlay::replica_lane_s(std::size_t number) {
  double sums = 0;
  const auto microbatches = static_cast<double>(microbatches_);
  for (const Sync& sync : stages_[number].syncs) {
    // A tied weight's gradients are whole until the end.
    sums += sync.price * (choices_.zero >= 2 && !sync.tied ? microbatches : 1);
    if (choices_.zero == 0) continue;
    const bool again = choices_.zero == 3 && choices_.reshard;
    // An embedding is not read in the backward.
    const double gathers = again ? microbatches * (sync.of_layers ? 2 : 1) : 1;
    sums += gathers * gather_price(number, sync);
  }
  return sums;
}

// What goes to the host for the backward, and comes back; the last layer's may stay.
double StagePlay::copy_lane_s(std::size_t number) {
  double seconds = choices_.offload_optimizer ? state_copy_s(stages_[number]) : 0;
  if (!choices_.offload_activations) return seconds;
  for (std::size_t c = number; c < chunks_.size(); c += stages_.size()) {
    const Bytes away = chunks_[c].away;
    seconds += static_cast<double>(microbatches_) * bounds_.copy_price(choices_, away);
  }
  return seconds;
}

// Moments and master weights, one way.
double StagePlay::state_copy_s(const Stage& stage) {
  if (!choices_.offload_optimizer) return 0;
  const std::int64_t states = is_mixed(element_plan_.precision) ? 3 : 2;
  return bounds_.copy_price(
      choices_, bytes_per_element(state_element(element_plan_), element_plan_.precision) *
                    (states * (stage.elements / owners())));
}

}  // namespace meshwright
