#include "planner/bound/gathered_entry.h"

#include <algorithm>

namespace meshwright {

void StagePlay::order_uses(ChunkPrices& prices, std::size_t kind) const {
  const std::vector<BoundBucket>& buckets = (*buckets_)[kind];
  for (const std::size_t back : {0, 1}) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (is_shared(buckets[b].routed) && buckets[b].uses[back]) prices.used[back].push_back(b);
    }
    std::ranges::sort(prices.used[back], {}, [&](std::size_t b) { return buckets[b].uses[back]; });
  }
}

StagePlay::GatheredEntry::GatheredEntry(StagePlay& play, std::size_t number,
                                        const PipelineItem& item)
    : SteppedEntry(play, number, item, play.at_once_),
      buckets_((*play.buckets_)[play.work_.kind_of(static_cast<std::size_t>(item.chunk))]),
      prices_(play.prices_of(number, static_cast<std::size_t>(item.chunk))),
      begins_step_(play.begins_step(number, item)),
      begin_(stage_.state[kCompute]),
      back_(item.forward ? 0 : 1),
      used_(prices_.used[back_]) {}

LaneTimes StagePlay::GatheredEntry::run(LaneTimes state) {
  for (std::int64_t i = 0; i < play_.choices_.prefetch; ++i) gather_next(state[kCompute]);
  state = play_blocks(
      state, item_.last, [&] { return uses_next(kLastStep) || completes_next(kLastStep); },
      [&](std::uint16_t step, double came) { return wait_for_weights(step, came); },
      [&](std::uint16_t step, double ended, double& came, const BlockBound& block,
          const LaneTimes& before) { complete_gradients(step, ended, came, block, before); });
  for (const Complete& complete : waiting_) {
    sum(complete, state[kCompute]);
    stage_.add_summed(state[kCompute]);
  }
  return state;
}

bool StagePlay::GatheredEntry::uses_next(std::uint16_t step) const {
  return uses_ < used_.size() && is_passed(*bucket(used_[uses_]).uses[back_], repetition_, step);
}

bool StagePlay::GatheredEntry::completes_next(std::uint16_t step) const {
  return !item_.forward && completes_ < prices_.completed.size() &&
         is_passed(bucket(prices_.completed[completes_]).completes, repetition_, step);
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
  const bool stands_first = begins_step_ && came <= begin_;
  const double ready = stands_first ? play_.updated_s(buckets_, next) : came;
  gathered_.push_back(transfer(next, std::min(ready, came), prices_.buckets[next].gather));
}

// When those are there that a step is the first to use.
double StagePlay::GatheredEntry::wait_for_weights(std::uint16_t step, double came) {
  double there = kNever;
  for (; uses_next(step); ++uses_) {
    gather_next(came);
    there = std::max(there, gathered_[uses_]);
  }
  return there;
}

void StagePlay::GatheredEntry::complete_gradients(std::uint16_t step, double ended, double& came,
                                                  const BlockBound& block,
                                                  const LaneTimes& before) {
  for (; completes_next(step); ++completes_) {
    const std::size_t number = prices_.completed[completes_];
    const BoundBucket& own = bucket(number);
    if (!play_.is_shared(own.routed)) continue;
    const Sync sync = sync_of(own, prices_.buckets[number], ended, block, before);
    if (item_.last) stage_.syncs.push_back(sync);
    const Complete complete{number, sync.ready};
    if (play_.choices_.overlap) {
      sum(complete, came);
    } else {
      waiting_.push_back(complete);
    }
  }
}

void StagePlay::GatheredEntry::sum(const Complete& complete, double& came) {
  stage_.add_summed(came);
  const BucketPrice& price = prices_.buckets[complete.bucket];
  stage_.not_added = transfer(complete.bucket, complete.ready, price.sum);
  stage_.add_later(price, item_);
  if (!play_.sums_in_two_steps(bucket(complete.bucket).routed)) return;
  const double begin = std::max(stage_.shares_summed, stage_.not_added);
  stage_.not_added = stage_.shares_summed = begin + price.shares.seconds;
  stage_.under_way.add(begin, stage_.shares_summed);
}

}  // namespace meshwright
