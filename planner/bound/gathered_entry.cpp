#include "planner/bound/gathered_entry.h"

#include <algorithm>

namespace meshwright {

void StagePlay::order_uses(ChunkPrices& prices, std::size_t kind) const {
  const std::vector<BoundBucket>& buckets = (*buckets_)[kind];
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (repeats_ == (buckets[b].routed ? sharing_ : 1)) continue;
    for (const std::size_t back : {0, 1}) {
      if (buckets[b].uses[back]) prices.used[back].push_back(b);
    }
    prices.completed.push_back(b);
  }
  for (const std::size_t back : {0, 1}) {
    std::ranges::sort(prices.used[back], {}, [&](std::size_t b) { return buckets[b].uses[back]; });
  }
  std::ranges::sort(prices.completed, {}, [&](std::size_t b) { return buckets[b].completes; });
}

StagePlay::GatheredEntry::GatheredEntry(StagePlay& play, std::size_t number,
                                        const PipelineItem& item)
    : play_(play),
      stage_(play.stages_[number]),
      item_(item),
      chunk_(play.work_.chunk(static_cast<std::size_t>(item.chunk))),
      buckets_((*play.buckets_)[play.work_.kind_of(static_cast<std::size_t>(item.chunk))]),
      prices_(play.prices_of(number, static_cast<std::size_t>(item.chunk))),
      back_(item.forward ? 0 : 1),
      used_(prices_.used[back_]),
      loss_(play.at_once_ ? stage_.loss : 0),
      copies_(play, stage_, item),
      done_(stage_.done_s),
      sum_of_earlier_(stage_.not_added != kNever) {}

LaneTimes StagePlay::GatheredEntry::run(LaneTimes state) {
  for (std::int64_t i = 0; i < play_.choices_.prefetch; ++i) gather_next(state[kCompute]);
  for (std::size_t r = 0; r < chunk_.runs.size(); ++r) {
    const BlockRun& run = chunk_.runs[item_.forward ? r : chunk_.runs.size() - 1 - r];
    const BlockBound& block = play_.work_.block_of(run);
    const BlockWork& work = item_.forward ? block.forward : block.backward;
    for (std::int64_t i = 0; i < run.count; ++i, ++repetition_) {
      const double held = item_.forward ? kNever : copies_.held(block, run.away, state[kCompute]);
      if (item_.last) play_.note_tied(stage_, block, state, done_);
      LaneTimes after = work.advance(state);
      raise(after, through(block, state));
      after[kCompute] = std::max(after[kCompute], held);
      done_ += work.compute_s;
      state = after;
    }
  }
  for (const Complete& complete : waiting_) {
    sum(complete, state[kCompute]);
    add_summed(state[kCompute]);
  }
  if (sum_of_earlier_) add_summed(state[kCompute]);
  return state;
}

LaneTimes StagePlay::GatheredEntry::through(const BlockBound& block, const LaneTimes& state) {
  return play_steps(
      block.steps[back_], state, finish_,
      [&](std::uint16_t step, double came) { return wait_for_weights(step, came); },
      [&](const BlockStep& step, double start) {
        return stage_.under_way.slowed(start, step, loss_);
      },
      [&](std::uint16_t step, double finish, double& came) {
        if (!item_.forward) complete_gradients(step, finish, came, block, state);
      });
}

// Returns when it is over.
double StagePlay::GatheredEntry::transfer(std::size_t bucket, double ready,
                                          const TransferLoad& load) {
  const bool routed = buckets_[bucket].routed;
  double& until = stage_.gathers_until[routed ? 1 : 0];
  const double begin = std::max(until, ready);
  until = begin + load.seconds;
  if (!routed) stage_.under_way.add(begin, until);
  return until;
}

void StagePlay::GatheredEntry::gather_next(double came) {
  if (gathered_.size() == used_.size()) return;
  const std::size_t next = used_[gathered_.size()];
  gathered_.push_back(transfer(next, came, prices_.buckets[next].gather));
}

// When those are there that a step is the first to use.
double StagePlay::GatheredEntry::wait_for_weights(std::uint16_t step, double came) {
  double there = kNever;
  for (; uses_ < used_.size(); ++uses_) {
    if (!is_passed(*bucket(used_[uses_]).uses[back_], repetition_, step)) break;
    gather_next(came);
    there = std::max(there, gathered_[uses_]);
  }
  return there;
}

void StagePlay::GatheredEntry::complete_gradients(std::uint16_t step, double ready, double& came,
                                                  const BlockBound& block,
                                                  const LaneTimes& before) {
  for (; completes_ < prices_.completed.size(); ++completes_) {
    const std::size_t number = prices_.completed[completes_];
    const BoundBucket& own = bucket(number);
    if (!is_passed(own.completes, repetition_, step)) break;
    const BlockWeight& weight = block.weights[own.weight];
    const Complete complete{number, std::max(ready, at(weight.complete, before))};
    if (item_.last) {
      stage_.syncs.push_back({.ready = complete.ready,
                              .done_s = done_ + weight.compute_before_s,
                              .elements = own.elements,
                              .of_layers = own.of_layers,
                              .routed = own.routed,
                              .price = prices_.buckets[number]});
    }
    if (play_.choices_.overlap) {
      sum(complete, came);
    } else {
      waiting_.push_back(complete);
    }
  }
}

void StagePlay::GatheredEntry::sum(const Complete& complete, double& came) {
  add_summed(came);
  const BucketPrice& price = prices_.buckets[complete.bucket];
  stage_.not_added = transfer(complete.bucket, complete.ready, price.sum);
  if (!play_.sums_in_two_steps(bucket(complete.bucket).routed)) return;
  const double begin = std::max(stage_.shares_summed, stage_.not_added);
  stage_.not_added = stage_.shares_summed = begin + price.shares.seconds;
  stage_.under_way.add(begin, stage_.shares_summed);
}

void StagePlay::GatheredEntry::add_summed(double& came) {
  came = std::max(came, stage_.not_added);
  stage_.not_added = kNever;
  sum_of_earlier_ = false;
}

}  // namespace meshwright
