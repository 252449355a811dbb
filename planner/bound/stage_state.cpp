// What stages do about weights and their state: buckets, sums over replicas, updates, copies.
#include <algorithm>
#include <array>

#include "planner/bound/stage_play.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {

// A backward of a chunk, block by block: buckets are complete on the way. Returns the state after
// it.
LaneTimes StagePlay::finish_gradients(std::size_t number, const PipelineItem& item) {
  Stage& stage = stages_[number];
  const auto index = static_cast<std::size_t>(item.chunk);
  const ChunkWork& chunk = work_.chunk(index);
  const std::vector<BoundBucket>& buckets = (*buckets_)[work_.kind_of(index)];
  const ChunkPrices& prices = prices_of(number, index);
  LaneTimes state = stage.state;
  double done = stage.done_s;
  std::size_t next = 0;
  std::int64_t repetition = 0;
  for (std::size_t r = chunk.runs.size(); r-- > 0;) {
    const BlockBound& block = work_.block_of(chunk.runs[r]);
    for (std::int64_t i = 0; i < chunk.runs[r].count; ++i, ++repetition) {
      double held = kNever, completed = stage.summing;
      for (; next < buckets.size() && buckets[next].repetition == repetition; ++next) {
        const BlockWeight& weight = block.weights[buckets[next].weight];
        const Sync sync{.ready = at(weight.complete, state),
                        .done_s = done + weight.compute_before_s,
                        .elements = buckets[next].elements,
                        .of_layers = buckets[next].of_layers,
                        .routed = buckets[next].routed,
                        .price = prices.buckets[next]};
        if (item.last) stage.syncs.push_back(sync);
        if (sync.routed) continue;
        completed = std::max(completed, sync.ready) + sync.price.sum;
        if (choices_.zero < 2 || !choices_.overlap) continue;
        // What is scattered is added to the own part when the next bucket is complete.
        held = std::max(held, stage.scattered + block.backward.compute_s - weight.compute_before_s);
        stage.scattered = std::max(stage.scattered, sync.ready) + sync.price.sum;
      }
      if (item.last) note_tied(stage, block, state, done);
      const LaneTimes before = state;
      const BlockWork& work = block.backward;
      state = work.advance(before);
      slow_down(stage, {work.advance, work.compute_s, work.transfer_s}, before, state);
      state[kCompute] = std::max(state[kCompute], held);
      // What the block's own buckets slow of it is not looked at.
      stage.summing = completed;
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

// Experts that replicas share out are summed and gathered in a lane of their own, over fewer
// devices.
StagePlay::BucketPrice StagePlay::price_of(std::size_t number, std::int64_t elements, bool routed) {
  const auto stage = static_cast<std::int64_t>(number);
  const std::int64_t whole = padded(elements, owners(routed));
  const auto price = [&](TransferKind kind, BufferElement element) {
    return bounds_.replica_price(prices_, kind, choices_, stage, whole, element, routed);
  };
  if (choices_.zero == 0) return {price(TransferKind::AllReduce, gradient_element(element_plan_))};
  // State that only some of them share out is summed in two steps, which nothing is said of.
  const bool is_plane = choices_.tensor == TensorForm::OneD || choices_.tensor == TensorForm::TwoD;
  if (choices_.shard || !is_plane) return {};
  return {price(TransferKind::ReduceScatter, gradient_element(element_plan_)),
          price(TransferKind::AllGather, BufferElement::Real)};
}

const StagePlay::ChunkPrices& StagePlay::prices_of(std::size_t number, std::size_t chunk) {
  const std::size_t kind = work_.kind_of(chunk);
  ChunkPrices& prices = chunk_prices_[number * work_.kind_count() + kind];
  if (prices.known) return prices;
  prices.known = true;
  std::array<double, 2> gathers = {}, most = {};  // by lane
  bool any = false;
  for (const BoundBucket& bucket : (*buckets_)[kind]) {
    const BucketPrice price =
        prices.buckets.emplace_back(price_of(number, bucket.elements, bucket.routed));
    // An embedding is not read in the backward.
    if (!bucket.of_layers) continue;
    prices.least = any ? std::min(prices.least, price.gather) : price.gather;
    any = true;
    most[bucket.routed] = std::max(most[bucket.routed], price.gather);
    gathers[bucket.routed] += price.gather;
  }
  const std::size_t longer = gathers[1] > gathers[0] ? 1 : 0;
  prices.gathers = gathers[longer];
  prices.most = most[longer];
  return prices;
}

void StagePlay::add_tied(std::size_t number) {
  Stage& stage = stages_[number];
  for (auto& [weight, sync] : stage.tied) {
    if (sync.ready == kNotSent) {
      sync.ready = stage.state[kCompute];
      sync.done_s = stage.done_s;
    }
    sync.price = price_of(number, sync.elements);
    stage.syncs.push_back(sync);
  }
}

// When all gradients of a stage are summed and all its kernels are done.
double StagePlay::end_of_stage(const Stage& stage) const {
  std::array<double, 2> lanes = {kNever, kNever};
  double end = stage.state[kCompute], left = 0;
  for (const Sync& sync : stage.syncs) {
    double& lane = lanes[sync.routed];
    lane = std::max(lane, sync.ready) + sync.price.sum;
  }
  // The norm waits for all of them, and kernels are slowed until then.
  for (std::size_t i = stage.syncs.size(); i-- > 0;) {
    const Sync& sync = stage.syncs[i];
    if (!sync.routed) left += sync.price.sum * stage.loss;
    end = std::max(end, sync.ready + (stage.done_s - sync.done_s) + left);
  }
  return std::max({lanes[0], lanes[1], end});
}

void StagePlay::add_updates() {
  const auto update = [&](std::int64_t elements, bool routed = false) {
    return bounds_.state_price(KernelKind::AdamW, choices_, owned(elements, routed));
  };
  std::vector<double> of_kinds;
  for (const auto& buckets : *buckets_) {
    double& seconds = of_kinds.emplace_back(0);
    for (const BoundBucket& bucket : buckets) seconds += update(bucket.elements, bucket.routed);
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const std::int64_t elements : work_.stage(s).tied) stages_[s].update_s += update(elements);
    for (std::size_t c = s; c < work_.chunk_count(); c += stages_.size()) {
      stages_[s].update_s += of_kinds[work_.kind_of(c)];
    }
  }
}

// Of all weights, after their update.
double StagePlay::gathers_s(const Stage& stage) const {
  std::array<double, 2> lanes = {};
  for (const Sync& sync : stage.syncs) lanes[sync.routed] += sync.price.gather;
  return std::max(lanes[0], lanes[1]);
}

// What the busier of the lanes between replicas has to do in a step.
double StagePlay::replica_lane_s(const Stage& stage) const {
  std::array<double, 2> lanes = {};
  const auto microbatches = static_cast<double>(microbatches_);
  for (const Sync& sync : stage.syncs) {
    double& sums = lanes[sync.routed];
    // A tied weight's gradients are whole until the end.
    sums += sync.price.sum * (choices_.zero >= 2 && !sync.tied ? microbatches : 1);
    // An embedding is not read in the backward.
    const double gathers = gathers_again() ? microbatches * (sync.of_layers ? 2 : 1) : 1;
    sums += gathers * sync.price.gather;
  }
  return std::max(lanes[0], lanes[1]);
}

double StagePlay::copies_s() {
  double most = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) most = std::max(most, copy_lane_s(s));
  return most;
}

// Of a chunk's activations, one way.
double StagePlay::copy_s(std::size_t kind) {
  if (copies_[kind] < 0) copies_[kind] = bounds_.copy_price(choices_, work_.kind(kind).away);
  return copies_[kind];
}

// What goes to the host for the backward, and comes back; the last layer's may stay.
double StagePlay::copy_lane_s(std::size_t number) {
  double seconds = state_copy_s(number);
  if (!choices_.offload_activations) return seconds;
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    seconds += static_cast<double>(microbatches_) * copy_s(work_.kind_of(c));
  }
  return seconds;
}

// Moments and master weights, one way.
double StagePlay::state_copy_s(std::size_t number) {
  if (!choices_.offload_optimizer) return 0;
  return bounds_.copy_price(choices_, optimizer_bytes(element_plan_, owned(work_.stage(number))));
}

}  // namespace meshwright
