#include "planner/bound/slowed_entry.h"

#include <algorithm>

namespace meshwright {

double StagePlay::UnderWay::slowed(double start, const BlockStep& step, double loss) const {
  const double seconds = step.seconds;
  if (step.lane != kCompute) return seconds;
  const double before = std::max(0.0, from_ - start);
  const double under_way = until_ - std::max(start, from_);
  if (under_way <= 0 || before >= seconds) return seconds;
  const double work = seconds - before;
  return before + std::min(work / (1 - loss), work + under_way * loss);
}

StagePlay::SlowedEntry::SlowedEntry(StagePlay& play, std::size_t number, const PipelineItem& item,
                                    bool sums)
    : play_(play),
      stage_(play.stages_[number]),
      item_(item),
      sums_(sums),
      chunk_(play.work_.chunk(static_cast<std::size_t>(item.chunk))),
      buckets_(sums ? &(*play.buckets_)[play.work_.kind_of(static_cast<std::size_t>(item.chunk))]
                    : nullptr),
      prices_(sums ? &play.prices_of(number, static_cast<std::size_t>(item.chunk)) : nullptr),
      loss_(play.sums_at_once_ ? stage_.loss : 0),
      copies_(play, stage_, item),
      done_(stage_.done_s) {}

LaneTimes StagePlay::SlowedEntry::run(LaneTimes state) {
  for (std::size_t r = 0; r < chunk_.runs.size(); ++r) {
    const BlockRun& run = chunk_.runs[item_.forward ? r : chunk_.runs.size() - 1 - r];
    const BlockBound& block = play_.work_.block_of(run);
    const BlockWork& work = item_.forward ? block.forward : block.backward;
    for (std::int64_t i = 0; i < run.count; ++i, ++repetition_) {
      const double held = item_.forward ? kNever : copies_.held(block, run.away, state[kCompute]);
      if (sums_ && item_.last) play_.note_tied(stage_, block, state, done_);
      LaneTimes after = work.advance(state);
      raise(after, through(block, state));
      after[kCompute] = std::max(after[kCompute], held);
      done_ += work.compute_s;
      state = after;
    }
  }
  return state;
}

LaneTimes StagePlay::SlowedEntry::through(const BlockBound& block, const LaneTimes& state) {
  LaneTimes after = play_steps(
      block.steps[item_.forward ? 0 : 1], state, finish_,
      [](std::uint16_t, double) { return kNever; },
      [&](const BlockStep& step, double start) {
        return stage_.under_way.slowed(start, step, loss_);
      },
      [&](std::uint16_t step, double finish, double& came) {
        if (sums_) complete_until(step, finish, came, block, state);
      });
  if (sums_) complete_until(kLastStep, kNever, after[kCompute], block, state);
  return after;
}

void StagePlay::SlowedEntry::complete_until(std::uint16_t step, double ended, double& came,
                                            const BlockBound& block, const LaneTimes& before) {
  for (; next_ < buckets_->size(); ++next_) {
    const BoundBucket& bucket = (*buckets_)[next_];
    if (bucket.repetition > repetition_ || !is_passed(bucket.completes, repetition_, step)) return;
    complete(ended, came, block, before);
  }
}

void StagePlay::SlowedEntry::complete(double ended, double& came, const BlockBound& block,
                                      const LaneTimes& before) {
  const BoundBucket& bucket = (*buckets_)[next_];
  const BlockWeight& weight = block.weights[bucket.weight];
  const Sync sync{.ready = std::max(ended, at(weight.complete, before)),
                  .done_s = done_ + weight.compute_before_s,
                  .elements = bucket.elements,
                  .of_layers = bucket.of_layers,
                  .routed = bucket.routed,
                  .price = prices_->buckets[next_]};
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
  const bool shared = play_.repeats_ > (sync.routed ? play_.sharing_ : 1);
  const bool known = play_.knows_shares() || play_.sums_in_two_steps(sync.routed);
  if (play_.choices_.zero < 2 || !play_.choices_.overlap || !known || !shared) return;
  came = std::max({came, stage_.scattered[stage_.last_lane], stage_.shares_summed});
  stage_.last_lane = sync.routed ? 1 : 0;
  double& scattered = stage_.scattered[stage_.last_lane];
  scattered = std::max(scattered, sync.ready) + sync.price.sum.seconds;
  if (play_.sums_in_two_steps(sync.routed)) {
    stage_.shares_summed = std::max(stage_.shares_summed, scattered) + sync.price.shares.seconds;
  }
}

}  // namespace meshwright
