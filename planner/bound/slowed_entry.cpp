#include "planner/bound/slowed_entry.h"

#include <algorithm>

namespace meshwright {

StagePlay::SlowedEntry::SlowedEntry(StagePlay& play, std::size_t number, const PipelineItem& item,
                                    bool sums)
    : SteppedEntry(play, number, item, play.sums_at_once_),
      sums_(sums),
      buckets_(sums ? &(*play.buckets_)[play.work_.kind_of(static_cast<std::size_t>(item.chunk))]
                    : nullptr),
      prices_(sums ? &play.prices_of(number, static_cast<std::size_t>(item.chunk)) : nullptr) {}

LaneTimes StagePlay::SlowedEntry::run(const LaneTimes& state) {
  return play_blocks(
      state, sums_ && item_.last, [&] { return completes_next(kLastStep); },
      [](std::uint16_t, double) { return kNever; },
      [&](std::uint16_t step, double ended, double& came, const BlockBound& block,
          const LaneTimes& before) { complete_until(step, ended, came, block, before); });
}

bool StagePlay::SlowedEntry::completes_next(std::uint16_t step) const {
  return sums_ && next_ < buckets_->size() &&
         is_passed((*buckets_)[prices_->completed[next_]].completes, repetition_, step);
}

void StagePlay::SlowedEntry::complete_until(std::uint16_t step, double ended, double& came,
                                            const BlockBound& block, const LaneTimes& before) {
  for (; completes_next(step); ++next_) {
    complete(prices_->completed[next_], ended, came, block, before);
  }
}

void StagePlay::SlowedEntry::complete(std::size_t number, double ended, double& came,
                                      const BlockBound& block, const LaneTimes& before) {
  const BoundBucket& bucket = (*buckets_)[number];
  const Sync sync = sync_of(bucket, prices_->buckets[number], ended, block, before);
  if (item_.last) stage_.syncs.push_back(sync);
  if (!sync.routed) sum(sync);
  add_scattered(sync, came);
}

void StagePlay::SlowedEntry::sum(const Sync& sync) {
  auto& [lane, shares, ports] = stage_.summing;
  const double begin = std::max(lane, sync.ready);
  lane = begin + sync.price.sum.seconds;
  shares = std::max(shares, lane) + sync.price.shares.seconds;
  ports.add(begin, sync.price.sum.ports);
  ports.add(lane, sync.price.shares.ports);
  stage_.under_way.add(begin, std::max(shares, ports.latest()));
}

// What is scattered is added to the own part when the next bucket is complete.
void StagePlay::SlowedEntry::add_scattered(const Sync& sync, double& came) {
  const bool shared = play_.is_shared(sync.routed);
  const bool known = play_.knows_shares() || play_.sums_in_two_steps(sync.routed);
  if (play_.choices_.zero < 2 || !play_.choices_.overlap || !known || !shared) return;
  came = std::max({came, stage_.scattered[stage_.last_lane], stage_.shares_summed}) + stage_.add_s;
  stage_.add_later(sync.price, item_);
  stage_.last_lane = sync.routed ? 1 : 0;
  double& scattered = stage_.scattered[stage_.last_lane];
  scattered = std::max(scattered, sync.ready) + sync.price.sum.seconds;
  if (play_.sums_in_two_steps(sync.routed)) {
    stage_.shares_summed = std::max(stage_.shares_summed, scattered) + sync.price.shares.seconds;
  }
}

}  // namespace meshwright
