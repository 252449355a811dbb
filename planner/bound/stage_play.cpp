#include "planner/bound/stage_play.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>

#include "planner/bound/gathered_entry.h"
#include "planner/bound/slowed_entry.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"
#include "simulator/plan/plan.h"

namespace meshwright {

StagePlay::StagePlay(Bounds& bounds, const PlanChoices& choices, StageWork& work, LeftOpen open)
    : bounds_(bounds),
      choices_(choices),
      repeats_(repeated_weights(choices)),
      sharing_(replicas_sharing_experts(choices)),
      work_(work),
      setting_(bounds.setting_),
      open_(open),
      any_state_(open == LeftOpen::State),
      alike_(bounds.replicas_alike(choices)),
      at_once_(!any_state_ && repeats_ > 1 && bounds.has_equal_replicas(choices)),
      sums_at_once_(at_once_ && choices.overlap && choices.zero < 3),
      prices_(bounds.prices_of(choices)),
      items_(bounds.items(choices)),
      microbatches_(bounds.microbatches_of(choices)),
      element_plan_(bounds.element_plan(choices)),
      stages_(static_cast<std::size_t>(choices.pp)) {}

// A stage has chunks ahead of the next stage's and behind the stage before it.
void StagePlay::price_messages() {
  const std::int64_t stages = choices_.pp;
  for (std::int64_t s = 0; s < stages && stages > 1; ++s) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    const std::int64_t next = (s + 1) % stages, before = (s + stages - 1) % stages;
    const auto price = [&](std::int64_t from, std::int64_t to) -> const TransferLoad& {
      return bounds_.send_price(prices_, choices_, from, to, work_.message());
    };
    stage.sent[0] = price(s, next).ports;
    stage.sent[1] = price(s, before).ports;
    stage.send_s[0] = price(s, next).seconds;
    stage.send_s[1] = price(s, before).seconds;
    stage.receive_s[0] = price(before, s).seconds;
    stage.receive_s[1] = price(next, s).seconds;
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].loss = bounds_.replica_loss(choices_, static_cast<std::int64_t>(s));
  }
}

double& StagePlay::message(bool forward, std::int32_t chunk, std::int32_t microbatch) {
  const std::size_t index =
      ((forward ? 0 : work_.chunk_count()) + static_cast<std::size_t>(chunk)) *
          static_cast<std::size_t>(microbatches_) +
      static_cast<std::size_t>(microbatch);
  return messages_[index];
}

void StagePlay::run_stages() {
  messages_.assign(2 * work_.chunk_count() * static_cast<std::size_t>(microbatches_), kNotSent);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      while (stages_[s].next < items_.stages[s].size() && advance(s)) moved = true;
    }
  }
}

// False: what it waits for has not been sent yet.
bool StagePlay::advance(std::size_t number) {
  Stage& stage = stages_[number];
  const PipelineItem& item = items_.stages[number][stage.next];
  if (item.receives) {
    if (!receive(stage, item)) return false;
  } else {
    compute(number, item);
  }
  ++stage.next;
  return true;
}

bool StagePlay::receive(Stage& stage, const PipelineItem& item) {
  double& sent = message(item.forward, item.chunk, item.microbatch);
  if (sent == kNotSent) return false;
  const double dispatch = setting_.engine.dispatch.value();
  const double price = stage.receive_s[item.forward ? 0 : 1];
  stage.state[kHost] += dispatch;
  double& lane = stage.receives[item.forward ? 0 : 1];
  const double finish = std::max({sent, lane, stage.state[kHost]}) + price;
  lane = finish;
  sent = finish;  // for its reader
  if (setting_.engine.host_waits && dispatch > 0) {
    stage.state[kHost] = std::max(finish, stage.state[kCompute]);
  }
  return true;
}

void StagePlay::compute(std::size_t number, const PipelineItem& item) {
  Stage& stage = stages_[number];
  const ChunkWork& chunk = work_.chunk(static_cast<std::size_t>(item.chunk));
  const bool receives = item.forward
                            ? item.chunk > 0
                            : item.chunk + 1 < static_cast<std::int32_t>(work_.chunk_count());
  stage.state[kBoundary] = receives ? message(item.forward, item.chunk, item.microbatch) : kNever;
  if (item.forward && choices_.offload_activations) wait_for_copies(stage);
  const LaneTimes before = stage.state;
  if (!item.forward && !stage.backward) stage.backward = before[kCompute];
  if (item.last && !stage.last_backward) stage.last_backward = before[kCompute];
  const bool sums = (item.last || (choices_.zero >= 2 && repeats_ > 1)) && !any_state_;
  const bool slowed = sums_at_once_ && stage.loss > 0 && stage.under_way.is_at(before[kCompute]);
  if (plays_gathers(item)) {
    stage.state = GatheredEntry(*this, number, item).run(before);
  } else if ((!item.forward && (sums || choices_.offload_activations)) || slowed) {
    stage.state = SlowedEntry(*this, number, item, sums && !item.forward).run(before);
  } else {
    stage.state = (item.forward ? chunk.forward : chunk.backward)(before);
  }
  stage.done_s += item.forward ? chunk.forward_s : chunk.backward_s;
  if (gathers_again() && !any_state_) raise(stage.state, after_gathers(number, item, before));
  // A forward ends with what the backward before it has summed last.
  if (item.forward && stage.not_added != kNever) stage.add_summed(stage.state[kCompute]);
  if (gathers_once() && !any_state_ && item.forward && item.microbatch == 0) {
    wait_for_weights(number, item);
  }
  if (choices_.offload_activations) note_copies(stage, item, before[kCompute]);
  send(number, item);
}

double StagePlay::UnderWay::slowed(double start, const BlockStep& step, double loss) const {
  const double seconds = step.seconds;
  if (step.lane != kCompute) return seconds;
  const double before = std::max(0.0, from_ - start);
  const double under_way = until_ - std::max(start, from_);
  if (under_way <= 0 || before >= seconds) return seconds;
  const double work = seconds - before;
  return before + std::min(work / (1 - loss), work + under_way * loss);
}

// Where weights are shared out: an entry gathers them one bucket after the other, the first one
// before it computes with any, and none before computing has come to the entry, or where it begins
// a step before the norm.
LaneTimes StagePlay::after_gathers(std::size_t number, const PipelineItem& item,
                                   const LaneTimes& state) {
  const auto index = static_cast<std::size_t>(item.chunk);
  const ChunkWork& chunk = work_.chunk(index);
  const ChunkPrices& prices = prices_of(number, index);
  Stage& stage = stages_[number];
  const bool begins = begins_step(number, item);
  const double from = begins ? 0 : state[kCompute];
  LaneTimes start = never();
  start[kCompute] = state[kCompute];
  if (gathers_first(chunk, item.forward)) {
    start[kCompute] = std::max(start[kCompute], from + prices.least);
  }
  LaneTimes after = (item.forward ? chunk.forward : chunk.backward)(start);
  // Kernels are slowed by those that follow, and so are updates, but for those that wait for state
  // on the host.
  const double waits = prices.most + (begins ? stage.all_updated - stage.update_s : 0);
  after[kCompute] += std::max(0.0, prices.gathers - waits) * stage.loss;
  // All that is gathered and all that the entry's kernels wait for lies between its ends.
  PortLoad ports = item.forward ? chunk.forward_ports : chunk.backward_ports;
  ports.add(prices.ports);
  after[kCompute] = std::max(after[kCompute], from + std::max(prices.gathers, ports.most()));
  if (plays_gathers(item)) return after;
  after[kCompute] = std::max(after[kCompute], after_lanes(stage, item, prices, from));
  return after;
}

// What an entry transfers, from a moment on, comes after what the lanes had to do before, and the
// last of it in a backward is a sum.
double StagePlay::after_lanes(Stage& stage, const PipelineItem& item, const ChunkPrices& prices,
                              double from) const {
  double end = kNever;
  for (std::size_t i = 0; i < 2; ++i) {
    if (prices.gather_lanes[i] == 0) continue;
    double& until = stage.gathers_until[i];
    until = std::max(until, from) + prices.gather_lanes[i];
    end = std::max(end, until + (item.forward ? prices.left_s[i] : 0));
    if (!item.forward) until += choices_.overlap ? prices.sum_lanes[i] : 0;
  }
  for (std::size_t i = 0; !item.forward && choices_.overlap && i < 2; ++i) {
    double& summed = stage.gathers_until[i];
    stage.scattered[i] = summed = std::max(stage.scattered[i], summed);
  }
  return end;
}

// Buckets are updated and gathered in the order in which the forward uses them, which is the one in
// which the backward completes them, turned round. What a chunk sends comes from its last kernel,
// or no earlier than that ends.
void StagePlay::wait_for_weights(std::size_t number, const PipelineItem& item) {
  Stage& stage = stages_[number];
  const auto index = static_cast<std::size_t>(item.chunk);
  const std::vector<BoundBucket>& buckets = (*buckets_)[work_.kind_of(index)];
  const ChunkPrices& prices = prices_of(number, index);
  double end = kNever;
  for (std::size_t b = buckets.size(); b-- > 0;) {
    stage.updated += bounds_.state_price(KernelKind::AdamW, choices_,
                                         owned(buckets[b].elements, buckets[b].routed));
    double& gathered = stage.gathered[buckets[b].routed ? 1 : 0];
    gathered = std::max(gathered, stage.updated) + prices.buckets[b].gather.seconds;
    end = std::max(end, gathered + buckets[b].forward_left_s);
  }
  stage.state[kCompute] = std::max(stage.state[kCompute], end);
  const MaxPlus& last = work_.block_of(work_.chunk(index).runs.back()).forward.advance;
  if (last.from(kCompute, kBoundary) >= last.from(kCompute, kCompute)) {
    stage.state[kBoundary] = std::max(stage.state[kBoundary], end);
  }
}

// A forward begins when all has left that stood before the one ahead of it.
void StagePlay::wait_for_copies(Stage& stage) const {
  stage.state[kCompute] = std::max(stage.state[kCompute], stage.copied_before);
  stage.copied_before = stage.copied_out;
}

// What is computed goes to the host, one after the other. A plan that finds room has not computed
// more at the end of a forward than there is room for what has not left yet.
void StagePlay::note_copies(Stage& stage, const PipelineItem& item, double start) {
  stage.previous_start = start;
  const ChunkWork& chunk = work_.chunk(static_cast<std::size_t>(item.chunk));
  stage.kept += item.forward ? chunk.kept : Bytes() - chunk.kept;
  if (!item.forward) return;
  stage.forward = item;
  const double first = std::max(stage.copied_out, start);
  stage.copied_out = first + copy_s(chunk.away);
  stage.copied_but_last = first + copy_s(chunk.away - chunk.last_away);
  stage.leaving =
      std::max(stage.leaving, start) + copy_rate_ * static_cast<double>(chunk.away.value());
  if (!stage.room) return;
  const Bytes waiting = std::max(Bytes(), *stage.room - stage.kept);
  stage.state[kCompute] = std::max(
      stage.state[kCompute], stage.leaving - copy_rate_ * static_cast<double>(waiting.value()));
}

void StagePlay::send(std::size_t number, const PipelineItem& item) {
  const std::int32_t to = item.forward ? item.chunk + 1 : item.chunk - 1;
  if (to < 0 || to >= static_cast<std::int32_t>(work_.chunk_count())) return;
  Stage& stage = stages_[number];
  stage.state[kHost] += setting_.engine.dispatch.value();
  double& lane = stage.sends[item.forward ? 0 : 1];
  const double price = stage.send_s[item.forward ? 0 : 1];
  const double start = std::max({stage.state[kBoundary], lane, stage.state[kHost]});
  lane = start + price;
  message(item.forward, to, item.microbatch) = start;
}

void StagePlay::prepare() {
  price_messages();
  if (any_state_) return;
  buckets_ = &buckets_of_kinds();
  chunk_prices_.resize((alike_ ? 1 : stages_.size()) * work_.kind_count());
  add_updates();
  add_replicas();
  if (choices_.offload_activations) find_room();
}

double StagePlay::least_step() {
  prepare();
  const bool repeats = setting_.engine.repeat;
  double before = kNotSent, after = kNotSent, tail = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    before = std::min(before, repeats ? stages_[s].all_updated : 0);
    after = std::min(after, largest_s(s));
    tail = std::max(tail, repeats ? 0 : stages_[s].all_updated);
  }
  const double end = std::max(work_.ends->all + after, sums_s());
  return std::max({lanes_s(), copies_s(), before + end + norm_s() + tail});
}

void StagePlay::run() {
  const EngineOptions& engine = setting_.engine;
  prepare();
  for (Stage& stage : stages_) {
    // From one step's norm to the next, or from the start to the end.
    stage.state.fill(engine.repeat ? kNever : 0);
    stage.state[kCompute] = engine.repeat ? stage.all_updated : 0;
    stage.state[kHost] = engine.repeat || engine.dispatch == Seconds(0) ? kNever : 0;
  }
  run_stages();
}

double StagePlay::step() {
  run();
  return std::max(end_of_step(), copies_s());
}

StageEnds StagePlay::ends() {
  run();
  StageEnds ends;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    ends.all = std::max(ends.all, stages_[s].state[kCompute]);
    StageBackwards& backwards = ends.backwards.emplace_back(backwards_of(stages_[s]));
    for (std::size_t c = s; c < work_.chunk_count(); c += stages_.size()) {
      backwards.ports.add(work_.chunk(c).backward_ports, static_cast<double>(microbatches_));
    }
  }
  return ends;
}

double StagePlay::end_of_step() {
  double summed = 0, tail = 0;
  add_tied();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    summed = std::max(summed, end_of_stage(stage) + largest_s(s));
    const bool gathers = choices_.zero == 1 || choices_.zero == 2;
    if (!setting_.engine.repeat) {
      tail = std::max({tail, stage.all_updated, gathers ? gathers_s(stage) : 0});
    }
  }
  return std::max(lanes_s(), summed + norm_s() + tail);
}

}  // namespace meshwright
