#include "planner/bound/gathered_entry.h"

#include <algorithm>
#include <array>
#include <limits>

namespace meshwright {
namespace {

constexpr std::size_t kLanes = 16;  // more are taken as free

bool is_passed(const ChunkPlace& place, std::int64_t repetition, std::uint16_t step) {
  constexpr std::uint16_t kLast = std::numeric_limits<std::uint16_t>::max();
  return place <= ChunkPlace{repetition, {step, kLast}};
}

}  // namespace

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
      // Kernels are slowed in the matrix alone.
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
  const BlockSteps& steps = block.steps[back_];
  std::array<double, kLanes> lanes;
  lanes.fill(kNever);
  std::ranges::copy(state, lanes.begin());
  double boundary = steps.passes_boundary ? state[kBoundary] : kNever;
  finish_.resize(steps.steps.size());
  for (std::uint16_t s = 0; s < steps.steps.size(); ++s) {
    const BlockStep& step = steps.steps[s];
    double start = wait_for_weights(s, lanes[kCompute]);
    for (std::size_t w = 0; w < step.wait_count; ++w) {
      start = std::max(start, finish_[steps.waits[step.first_wait + w]]);
    }
    if (step.reads_boundary) start = std::max(start, state[kBoundary]);
    if (step.waits_for_compute) start = std::max(start, lanes[kCompute]);
    if (step.lane < kLanes) start = std::max(start, lanes[step.lane]);
    finish_[s] = start + step.seconds;
    if (step.lane < kLanes) lanes[step.lane] = finish_[s];
    if (step.writes_boundary) boundary = finish_[s];
    if (!item_.forward) complete_gradients(s, finish_[s], lanes[kCompute], block, state);
  }
  LaneTimes after = state;
  std::copy_n(lanes.begin(), kStateSize, after.begin());
  after[kBoundary] = boundary;
  return after;
}

void StagePlay::GatheredEntry::gather_next(double came) {
  if (gathered_.size() == used_.size()) return;
  const std::size_t next = used_[gathered_.size()];
  double& until = lane(bucket(next));
  until = std::max(until, came) + prices_.buckets[next].gather.seconds;
  gathered_.push_back(until);
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
  double& until = lane(bucket(complete.bucket));
  until = std::max(until, complete.ready) + prices_.buckets[complete.bucket].sum.seconds;
  stage_.not_added = until;
}

void StagePlay::GatheredEntry::add_summed(double& came) {
  came = std::max(came, stage_.not_added);
  stage_.not_added = kNever;
  sum_of_earlier_ = false;
}

}  // namespace meshwright
