#include "planner/bound/stage_play.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>

#include "simulator/plan/plan.h"

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

}  // namespace

StagePlay::StagePlay(Bounds& bounds, const PlanChoices& choices, const BlockBounds& recomputing,
                     const BlockBounds& plain, bool any_state)
    : bounds_(bounds),
      choices_(choices),
      costs_(recomputing),
      plain_(plain),
      setting_(bounds.setting_),
      any_state_(any_state),
      prices_(bounds.prices_of(choices)),
      items_(bounds.items(choices)),
      microbatches_(bounds.batch_.global_batch / (choices.dp * choices.microbatch)),
      element_plan_{.precision = bounds.batch_.precision,
                    .gradient_precision = choices.gradient_precision.value_or(Precision::FP32)},
      stages_(static_cast<std::size_t>(choices.pp)) {
  make_chunks();
  count_weights();
  price_messages();
}

// A stage has chunks ahead of the next stage's and behind the stage before it.
void StagePlay::price_messages() {
  const std::int64_t stages = choices_.pp;
  for (std::int64_t s = 0; s < stages && stages > 1; ++s) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    const std::int64_t next = (s + 1) % stages, before = (s + stages - 1) % stages;
    const auto price = [&](std::int64_t from, std::int64_t to) {
      return bounds_.send_price(prices_, choices_, from, to, costs_.message);
    };
    stage.send_s[0] = price(s, next);
    stage.send_s[1] = price(s, before);
    stage.receive_s[0] = price(before, s);
    stage.receive_s[1] = price(next, s);
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].loss = bounds_.replica_loss(choices_, static_cast<std::int64_t>(s));
  }
}

void StagePlay::make_chunks() {
  using Key = std::tuple<std::size_t, std::int64_t, bool>;
  std::map<Key, std::pair<MaxPlus, MaxPlus>> powers;
  for (auto& runs : bounds_.runs_of(choices_)) {
    Chunk& chunk = chunks_.emplace_back();
    Bytes layer;  // that one keeps
    std::vector<const MaxPlus*> back;
    for (const BlockRun& run : runs) {
      const BlockBound& block = block_of(run);
      const auto [entry, added] = powers.try_emplace({run.block, run.count, run.recomputes});
      if (added) {
        entry->second = {power(block.forward.advance, run.count),
                         power(block.backward.advance, run.count)};
      }
      const bool is_first = &run == &runs.front();
      chunk.forward = is_first ? entry->second.first : chunk.forward.then(entry->second.first);
      back.push_back(&entry->second.second);
      const auto count = static_cast<double>(run.count);
      chunk.forward_s += count * block.forward.compute_s;
      chunk.backward_s += count * block.backward.compute_s;
      if (is_rerun_together(block)) continue;
      if (block.layer && choices_.offload_activations) {
        chunk.away += block.kept * run.count;
        layer = std::max(layer, block.kept);
        continue;
      }
      // The last repetition has most before it.
      const Bytes before = chunk.kept + block.kept * (run.count - 1);
      chunk.forward_peak = std::max(chunk.forward_peak, before + block.forward_peak);
      chunk.backward_peak = std::max(chunk.backward_peak, before + block.backward_peak);
      chunk.kept += block.kept * run.count;
    }
    // What a layer keeps is offloaded with the one that reads it first, so a layer more may stay.
    const bool offloads = choices_.offload_activations;
    for (int stays = offloads && turns_at_once(chunks_.size() - 1) ? 2 : 1; stays > 0; --stays) {
      chunk.away -= std::min(chunk.away, layer);
    }
    // Between chunks what comes in is kept here, and what goes out where it is read.
    if (chunks_.size() > 1 && !choices_.offload_activations) {
      chunk.kept += costs_.message;
      chunk.forward_peak += costs_.message;
      chunk.backward_peak += costs_.message;
    }
    const bool is_last =
        chunks_.size() == static_cast<std::size_t>(choices_.pp * choices_.virtual_stages);
    if (!is_last && !choices_.offload_activations) {
      chunk.kept -= costs_.message;
      chunk.backward_peak -= costs_.message;
    }
    chunk.backward = *back.back();
    for (std::size_t i = back.size() - 1; i-- > 0;) chunk.backward = chunk.backward.then(*back[i]);
    chunk.runs = std::move(runs);
    cut_buckets(chunk);
  }
}

void StagePlay::count_weights() {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    std::set<std::size_t> tied;
    for (std::size_t c = s; c < chunks_.size(); c += stages_.size()) {
      for (const BlockRun& run : chunks_[c].runs) {
        for (const BlockWeight& weight : costs_.blocks[run.block].weights) {
          if (weight.tied && !tied.insert(weight.number).second) continue;
          (weight.frozen ? stages_[s].frozen : stages_[s].elements) +=
              weight.elements * (weight.tied ? 1 : run.count);
          if (weight.tied && !weight.frozen) stages_[s].buckets.push_back(weight.elements);
        }
      }
      for (const Bucket& bucket : chunks_[c].buckets) stages_[s].buckets.push_back(bucket.elements);
    }
  }
}

double& StagePlay::message(bool forward, std::int32_t chunk, std::int32_t microbatch) {
  const std::size_t index = ((forward ? 0 : chunks_.size()) + static_cast<std::size_t>(chunk)) *
                                static_cast<std::size_t>(microbatches_) +
                            static_cast<std::size_t>(microbatch);
  return messages_[index];
}

void StagePlay::run_stages() {
  messages_.assign(2 * chunks_.size() * static_cast<std::size_t>(microbatches_), kNotSent);
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
  const Chunk& chunk = chunks_[static_cast<std::size_t>(item.chunk)];
  const bool receives =
      item.forward ? item.chunk > 0 : item.chunk + 1 < static_cast<std::int32_t>(chunks_.size());
  stage.state[kBoundary] = receives ? message(item.forward, item.chunk, item.microbatch) : kNever;
  const double start = stage.state[kCompute];
  const LaneTimes gathered = after_gathers(number, item, stage.state);
  const bool sums = !item.forward && (item.last || choices_.zero >= 2);
  if (sums && choices_.dp > 1 && !any_state_) {
    stage.state = finish_gradients(number, item);
  } else {
    stage.state = (item.forward ? chunk.forward : chunk.backward)(stage.state);
  }
  stage.done_s += item.forward ? chunk.forward_s : chunk.backward_s;
  raise(stage.state, gathered);
  if (choices_.offload_activations) wait_for_copies(stage, item, start);
  send(number, item);
}

// Where weights are shared out: an entry gathers them one bucket after the other, the first one
// before it computes with any, and none before computing has come to the entry.
LaneTimes StagePlay::after_gathers(std::size_t number, const PipelineItem& item,
                                   const LaneTimes& state) {
  LaneTimes after = never();
  const Chunk& chunk = chunks_[static_cast<std::size_t>(item.chunk)];
  if (choices_.zero < 3 || !choices_.reshard || choices_.dp == 1 || any_state_) return after;
  const Gathers& gathers = gathers_of(number, static_cast<std::size_t>(item.chunk));
  // A chunk's first layer starts its forward, and its last one its backward.
  const BlockRun& run = item.forward ? chunk.runs.front() : chunk.runs.back();
  const bool at_once = block_of(run).layer;
  LaneTimes start = never();
  start[kCompute] = state[kCompute] + (at_once ? gathers.least : 0);
  after = (item.forward ? chunk.forward : chunk.backward)(start);
  // Kernels are slowed by those that follow.
  after[kCompute] += (gathers.sum - gathers.most) * stages_[number].loss;
  after[kCompute] = std::max(after[kCompute], state[kCompute] + gathers.sum);
  return after;
}

// Of layers: an embedding is not read in the backward.
const StagePlay::Gathers& StagePlay::gathers_of(std::size_t number, std::size_t chunk) {
  auto& known = chunks_[chunk].gathers;
  if (known) return *known;
  known.emplace();
  for (const Bucket& bucket : chunks_[chunk].buckets) {
    if (!bucket.of_layers) continue;
    Sync sync;
    sync.elements = bucket.elements;
    const double price = gather_price(number, sync);
    known->least = known->sum == 0 ? price : std::min(known->least, price);
    known->most = std::max(known->most, price);
    known->sum += price;
  }
  return *known;
}

// A backward that follows its own forward: all that went to the host has come back one after the
// other, what went last first.
void StagePlay::wait_for_copies(Stage& stage, const PipelineItem& item, double start) {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(item.chunk)];
  if (item.forward) {
    stage.forward = item;
    stage.forward_start = start;
    return;
  }
  if (stage.forward.chunk != item.chunk || stage.forward.microbatch != item.microbatch) return;
  const Bytes away = chunk.away;
  const double back = stage.forward_start + 2 * bounds_.copy_price(choices_, away);
  stage.state[kCompute] = std::max(stage.state[kCompute], back);
}

void StagePlay::send(std::size_t number, const PipelineItem& item) {
  const std::int32_t to = item.forward ? item.chunk + 1 : item.chunk - 1;
  if (to < 0 || to >= static_cast<std::int32_t>(chunks_.size())) return;
  Stage& stage = stages_[number];
  stage.state[kHost] += setting_.engine.dispatch.value();
  double& lane = stage.sends[item.forward ? 0 : 1];
  const double price = stage.send_s[item.forward ? 0 : 1];
  const double start = std::max({stage.state[kBoundary], lane, stage.state[kHost]});
  lane = start + price;
  message(item.forward, to, item.microbatch) = start;
}

// Whether a backward of a chunk follows its own forward: its last layer then stays.
bool StagePlay::turns_at_once(std::size_t chunk) const {
  const auto& items = items_.stages[chunk % stages_.size()];
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

double StagePlay::step() {
  const EngineOptions& engine = setting_.engine;
  for (Stage& stage : stages_) {
    // From one step's norm to the next, or from the start to the end.
    stage.state.fill(engine.repeat ? kNever : 0);
    stage.state[kCompute] = engine.repeat && !any_state_ ? update_s(stage) : 0;
    stage.state[kHost] = engine.repeat || engine.dispatch == Seconds(0) ? kNever : 0;
  }
  run_stages();
  double summed = 0, lanes = 0, norm = 0, tail = 0;
  if (any_state_) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      summed = std::max({summed, stages_[s].state[kCompute], copy_lane_s(s)});
    }
    return summed;
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    add_tied(s);
    const Stage& stage = stages_[s];
    const auto price = [&](KernelKind kind) {
      return bounds_.state_price(kind, choices_, stage.elements / owners());
    };
    summed = std::max(summed, end_of_stage(stage) + price(KernelKind::NormLargest));
    norm = std::max(norm, price(KernelKind::NormSums));
    const double replicas = replica_lane_s(s);
    const double slowed = stage.done_s + update_s(stage) + replicas * stage.loss;
    lanes = std::max({lanes, replicas, copy_lane_s(s), slowed});
    const bool gathers = choices_.zero == 1 || choices_.zero == 2;
    if (!engine.repeat) {
      tail = std::max({tail, update_s(stage), gathers ? gathers_s(s) : 0, state_copy_s(stage)});
    }
  }
  return std::max(lanes, summed + norm + bounds_.norm_price(prices_, choices_) + tail);
}

}  // namespace meshwright
