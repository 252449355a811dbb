// What stages do about weights and their state: buckets, sums over replicas, updates, copies.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "planner/bound/stage_play.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {

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
  using Repeating = Bounds::Repeating;
  const auto price = [&](TransferKind kind, BufferElement element, Repeating which) {
    const std::int64_t count = which == Repeating::Shares ? whole / owners(routed) : whole;
    return bounds_.replica_price(prices_, kind, choices_, stage, count, element, which);
  };
  const BufferElement gradient = gradient_element(element_plan_);
  const Repeating all = routed ? Repeating::Experts : Repeating::All;
  if (choices_.zero == 0) return {price(TransferKind::AllReduce, gradient, all)};
  const bool two_steps = sums_in_two_steps(routed);
  if (!knows_shares() && !two_steps) return {};
  const Repeating own = two_steps ? Repeating::Owners : all;
  BucketPrice bucket{price(TransferKind::ReduceScatter, gradient, own),
                     price(TransferKind::AllGather, BufferElement::Real, own)};
  if (two_steps) bucket.shares = price(TransferKind::AllReduce, gradient, Repeating::Shares);
  if (choices_.zero >= 2) {
    bucket.add_s = bounds_.state_price(KernelKind::Sum, choices_, whole / owners(routed));
  }
  return bucket;
}

const StagePlay::ChunkPrices& StagePlay::prices_of(std::size_t number, std::size_t chunk) {
  const std::size_t kind = work_.kind_of(chunk);
  ChunkPrices& prices = chunk_prices_[(alike_ ? 0 : number) * work_.kind_count() + kind];
  if (prices.known) return prices;
  prices.known = true;
  double most[2] = {};  // by lane
  bool any = false;
  for (const BoundBucket& bucket : (*buckets_)[kind]) {
    const BucketPrice price =
        prices.buckets.emplace_back(price_of(number, bucket.elements, bucket.routed));
    prices.step.add(load_of(price, bucket));
    prices.sum_lanes[bucket.routed] += price.sum.seconds;
    double& longest = prices.longest_sum[bucket.routed];
    longest = std::max(longest, price.sum.seconds);
    prices.shares += price.shares.seconds;
    prices.longest_share = std::max(prices.longest_share, price.shares.seconds);
    // An embedding is not read in the backward.
    if (!bucket.of_layers) continue;
    const double gather = price.gather.seconds;
    prices.least = any ? std::min(prices.least, gather) : gather;
    any = true;
    most[bucket.routed] = std::max(most[bucket.routed], gather);
    // The first that is complete is the last that is gathered in the forward.
    if (prices.gather_lanes[bucket.routed] == 0) {
      prices.left_s[bucket.routed] = bucket.forward_left_s;
    }
    prices.gather_lanes[bucket.routed] += gather;
    prices.ports.add(price.gather.ports);
  }
  const std::vector<BoundBucket>& buckets = (*buckets_)[kind];
  prices.completed.resize(buckets.size());
  std::iota(prices.completed.begin(), prices.completed.end(), 0);
  std::ranges::stable_sort(prices.completed, {},
                           [&](std::size_t b) { return buckets[b].completes; });
  if (plays_gathers()) order_uses(prices, kind);
  const std::size_t longer = prices.gather_lanes[1] > prices.gather_lanes[0] ? 1 : 0;
  prices.gathers = prices.gather_lanes[longer];
  prices.most = most[longer];
  return prices;
}

// Gradients of a weight that a device has from several ops are added, then those of all stages that
// have it, then those of replicas.
void StagePlay::add_tied() {
  std::map<std::size_t, std::vector<std::int64_t>> holders;  // stages, by weight
  std::map<std::size_t, double> ready;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    for (auto& [weight, sync] : stage.tied) {
      if (sync.ready == kNotSent) {
        sync.ready =
            stage.state[kCompute] + bounds_.state_price(KernelKind::Sum, choices_, sync.elements);
      }
      holders[weight].push_back(static_cast<std::int64_t>(s));
      double& latest = ready.try_emplace(weight, sync.ready).first->second;
      latest = std::max(latest, sync.ready);
    }
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (auto& [weight, sync] : stages_[s].tied) {
      const double sum = bounds_.tied_price(prices_, choices_, holders[weight], sync.elements);
      sync.ready = ready[weight] + sum;
      sync.done_s = stages_[s].done_s;
      sync.price = price_of(s, sync.elements);
      stages_[s].syncs.push_back(sync);
    }
  }
}

// When all gradients of a stage are summed and all its kernels are done.
double StagePlay::end_of_stage(const Stage& stage) const {
  std::array<double, 2> lanes = {kNever, kNever};
  double end = std::max(stage.state[kCompute], stage.not_added) + stage.add_s, left = 0;
  end = std::max({end, stage.gathers_until[0], stage.gathers_until[1]});
  end = std::max(end, summed_s(stage.replicas, backwards_of(stage)));
  double shares = kNever;
  for (const Sync& sync : stage.syncs) {
    double& lane = lanes[sync.routed];
    lane = std::max(lane, sync.ready) + sync.price.sum.seconds;
    if (!sync.routed) shares = std::max(shares, lane) + sync.price.shares.seconds;
  }
  end = std::max(end, shares);
  // The norm waits for all of them, and kernels are slowed until then. They share links.
  PortLoad ports;
  double ready = kNotSent;
  for (std::size_t i = stage.syncs.size(); i-- > 0;) {
    const Sync& sync = stage.syncs[i];
    ports.add(sync.price.sum.ports);
    ports.add(sync.price.shares.ports);
    ready = std::min(ready, sync.ready);
    end = std::max(end, ready + ports.most());
    if (!sync.routed) {
      // After the last of these its shares are summed.
      if (left == 0) left = sync.price.shares.seconds * stage.loss;
      left += sync.price.sum.seconds * stage.loss;
    }
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
    // State comes from the host after the norm, and is updated before anything else is computed.
    stages_[s].all_updated = std::max(stages_[s].update_s, state_copy_s(s));
  }
}

// When one of a chunk that begins a step is, after the norm: buckets are updated in the order in
// which the forward uses them. Which of those goes first that a kernel uses together is not looked
// at.
double StagePlay::updated_s(const std::vector<BoundBucket>& buckets, std::size_t number) {
  const ChunkPlace first = *buckets[number].uses[0];
  double seconds = 0;
  std::int64_t elements = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto& use = buckets[b].uses[0];
    const bool before = use && !is_passed(first, use->repetition, use->at.step);
    if (b != number && !before) continue;
    const std::int64_t own = owned(buckets[b].elements, buckets[b].routed);
    seconds += bounds_.state_price(KernelKind::AdamW, choices_, own);
    elements += own;
  }
  if (!choices_.offload_optimizer) return seconds;
  const Bytes state = optimizer_bytes(element_plan_, elements);
  return std::max(seconds, bounds_.copy_price(choices_, state, Bytes()));
}

// Of all weights, after their update.
double StagePlay::gathers_s(const Stage& stage) const {
  std::array<double, 2> lanes = {};
  for (const Sync& sync : stage.syncs) lanes[sync.routed] += sync.price.gather.seconds;
  return std::max(lanes[0], lanes[1]);
}

// Of squares and cubes nothing is said from ZeRO-2 on: of some plans too much would be.
bool StagePlay::knows_shares() const {
  return !choices_.shard && (choices_.tensor == TensorForm::OneD || choices_.zero < 2);
}

// Where only some replicas share state out. Of experts that replicas share out nothing is said.
bool StagePlay::sums_in_two_steps(bool routed) const {
  return choices_.shard && choices_.tensor == TensorForm::OneD && !routed;
}

// A tied weight's gradients are whole until the end.
double StagePlay::sums_of(bool tied) const {
  return choices_.zero >= 2 && !tied ? static_cast<double>(microbatches_) : 1;
}

// An embedding is not read in the backward.
double StagePlay::gathers_of(bool of_layers) const {
  return gathers_again() ? static_cast<double>(microbatches_) * (of_layers ? 2 : 1) : 1;
}

StagePlay::ReplicaLoad StagePlay::load_of(const BucketPrice& price, const BoundBucket& bucket,
                                          bool tied) const {
  const double sums = sums_of(tied), gathers = gathers_of(bucket.of_layers);
  ReplicaLoad load;
  load.lanes[bucket.routed] = sums * price.sum.seconds + gathers * price.gather.seconds;
  const double back = gathers_again() && bucket.of_layers ? static_cast<double>(microbatches_) : 0;
  load.sums[bucket.routed] = sums * price.sum.seconds + back * price.gather.seconds;
  load.sum_ports.add(price.sum.ports, sums);
  load.sum_ports.add(price.shares.ports, sums);
  load.sum_ports.add(price.gather.ports, back);
  load.shares = sums * price.shares.seconds;
  load.ports.add(price.sum.ports, sums);
  load.ports.add(price.shares.ports, sums);
  load.ports.add(price.gather.ports, gathers);
  return load;
}

void StagePlay::add_replicas() {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    ReplicaLoad& load = stages_[s].replicas;
    for (const std::int64_t elements : work_.stage(s).tied) {
      load.add(load_of(price_of(s, elements), BoundBucket{}, true));
    }
    for (std::size_t c = s; c < work_.chunk_count(); c += stages_.size()) {
      load.add(prices_of(s, c).step);
      if (choices_.zero < 2) continue;
      load.sum_ports.add(work_.chunk(c).backward_ports, static_cast<double>(microbatches_));
    }
  }
}

double StagePlay::lanes_s() {
  double lanes = 0;
  const double norm = norm_s();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const double replicas = stages_[s].replicas.busier();
    const double kernels = kernels_s(s) + stages_[s].update_s;
    lanes = std::max({lanes, replicas, stages_[s].replicas.shares, ports_s(s),
                      kernels + replicas * stages_[s].loss});
    lanes = std::max(lanes, slowed_s(s, norm));
  }
  return lanes;
}

// When all is summed: no sum begins before a backward that completes gradients.
double StagePlay::summed_s(const ReplicaLoad& load, const StageBackwards& backwards) const {
  return backwards.summed_from(choices_.zero) +
         std::max({load.sums[0], load.sums[1], load.shares, load.sum_ports.most()});
}

double StagePlay::sums_s() {
  double latest = 0;
  const StageEnds& ends = *work_.ends;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const double summed = summed_s(stages_[s].replicas, ends.backwards[s]);
    latest = std::max(latest, summed + largest_s(s));
  }
  return latest;
}

// What an entry gathers lies between its ends, and so does what a backward sums, but for the last
// of it, which is added in the next one.
double StagePlay::entry_lanes_s(const ChunkPrices& prices, bool forward) const {
  const bool sums = !forward && choices_.zero >= 2 && choices_.overlap;
  double longest = sums ? prices.shares - prices.longest_share : 0;
  for (const std::size_t lane : {0, 1}) {
    double seconds = gathers_again() ? prices.gather_lanes[lane] : 0;
    if (sums) seconds += prices.sum_lanes[lane] - prices.longest_sum[lane];
    longest = std::max(longest, seconds);
  }
  return longest;
}

// From one norm to the next a device computes, one after the other, and waits for what its kernels
// wait for. Of the time y that it waits and the time C that replicas transfer, kernels are slowed
// for C - y at least, so that all takes kernels + y + loss (C - y): no less for longer waits. Or
// entries take what their lanes do. What the entry gathers that begins a step may come while the
// device still updates.
double StagePlay::slowed_s(std::size_t number, double norm) {
  const Stage& stage = stages_[number];
  double entries = 0, waits = 0, lanes = 0;
  double less_waits = 0, less_lanes = 0;  // of the entry that begins a step
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    const ChunkWork& chunk = work_.chunk(c);
    const ChunkPrices& prices = prices_of(number, c);
    for (const bool forward : {true, false}) {
      const double first = gathers_first(chunk, forward) ? prices.least : 0;
      const MaxPlus& advance = forward ? chunk.forward : chunk.backward;
      const double entry = advance.from(kCompute, kCompute) + first;
      entries += entry;
      waits += first + (forward ? chunk.forward_transfer_s : chunk.backward_transfer_s);
      const double gathered = entry_lanes_s(prices, forward);
      lanes += std::max(entry, gathered);
      if (!setting_.engine.repeat || !forward || c != number) continue;
      less_waits = first;
      less_lanes =
          std::max(entry, gathered) - std::max(entry - first, gathered - stage.all_updated);
    }
  }
  const auto microbatches = static_cast<double>(microbatches_);
  const double waited = microbatches * waits + stage.all_updated - stage.update_s + norm;
  const double slowed = std::max(0.0, stage.replicas.busier() - waited) * stage.loss;
  const double longest =
      std::max(microbatches * entries - less_waits + slowed, microbatches * lanes - less_lanes);
  return longest + stage.all_updated + largest_s(number) + norm;
}

// What all transfers of a device take of its ways out in a step.
double StagePlay::ports_s(std::size_t number) const {
  const Stage& stage = stages_[number];
  PortLoad ports = stage.replicas.ports;
  const auto microbatches = static_cast<double>(microbatches_);
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    ports.add(work_.chunk(c).forward_ports, microbatches);
    ports.add(work_.chunk(c).backward_ports, microbatches);
    if (work_.chunk(c).sends) ports.add(stage.sent[0], microbatches);
    if (work_.chunk(c).receives) ports.add(stage.sent[1], microbatches);
  }
  return ports.most();
}

// Also of those that rerun layers together.
double StagePlay::kernels_s(std::size_t number) const {
  double seconds = 0;
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    const ChunkWork& chunk = work_.chunk(c);
    seconds +=
        static_cast<double>(microbatches_) * (chunk.forward_s + chunk.backward_s + chunk.rerun_s);
  }
  return seconds;
}

double StagePlay::largest_s(std::size_t number) {
  return bounds_.state_price(KernelKind::NormLargest, choices_, owned(work_.stage(number)));
}

double StagePlay::norm_s() {
  double sums = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    sums =
        std::max(sums, bounds_.state_price(KernelKind::NormSums, choices_, owned(work_.stage(s))));
  }
  return sums + bounds_.norm_price(prices_, choices_);
}

double StagePlay::copies_s() {
  double most = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) most = std::max(most, copy_lane_s(s));
  return most;
}

// Of activations, to the host or back.
double StagePlay::copy_s(Bytes bytes) {
  const auto [entry, added] = copies_.try_emplace(bytes);
  if (!added || bytes <= Bytes()) return entry->second;
  if (!least_part_) least_part_ = bounds_.least_part_copied(choices_);
  const Bytes others(static_cast<std::int64_t>(static_cast<double>(bytes.value()) * *least_part_));
  return entry->second = bounds_.copy_price(choices_, bytes, others);
}

// What goes to the host for the backward, and comes back; the last layer's may stay.
double StagePlay::copy_lane_s(std::size_t number) {
  double seconds = state_copy_s(number);
  if (!choices_.offload_activations) return seconds;
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    seconds += static_cast<double>(microbatches_) * copy_s(work_.chunk(c).away);
  }
  return seconds;
}

// Moments and master weights, one way.
double StagePlay::state_copy_s(std::size_t number) {
  if (!choices_.offload_optimizer) return 0;
  const StageHolds& stage = work_.stage(number);
  const std::int64_t least =
      owned(stage.least - stage.least_routed) + owned(stage.least_routed, true);
  return bounds_.copy_price(choices_, optimizer_bytes(element_plan_, owned(stage)),
                            optimizer_bytes(element_plan_, least));
}

}  // namespace meshwright
