#include "planner/bound/stage_play.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "simulator/plan/plan.h"

namespace meshwright {
namespace {

constexpr double kNotSent = std::numeric_limits<double>::infinity();

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

std::int64_t padded(std::int64_t elements, std::int64_t owners) {
  return (elements + owners - 1) / owners * owners;
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
      items_(bounds.items(choices)),
      microbatches_(bounds.batch_.global_batch / (choices.dp * choices.microbatch)),
      element_plan_{.precision = bounds.batch_.precision,
                    .gradient_precision = choices.gradient_precision.value_or(Precision::FP32)},
      stages_(static_cast<std::size_t>(choices.pp)) {
  make_chunks();
  count_weights();
}

void StagePlay::make_chunks() {
  using Key = std::tuple<std::size_t, std::int64_t, bool>;
  std::map<Key, std::pair<MaxPlus, MaxPlus>> powers;
  for (auto& runs : bounds_.runs_of(choices_)) {
    Chunk& chunk = chunks_.emplace_back();
    std::vector<const MaxPlus*> back;
    for (const BlockRun& run : runs) {
      const BlockBound& block = block_of(run);
      const auto [entry, added] = powers.try_emplace({run.block, run.count, run.recomputes});
      if (added) {
        entry->second = {power(block.forward.advance, run.count),
                         power(block.backward.advance, run.count)};
      }
      chunk.forward = chunk.forward.then(entry->second.first);
      back.push_back(&entry->second.second);
      const auto count = static_cast<double>(run.count);
      chunk.forward_s += count * block.forward.compute_s;
      chunk.backward_s += count * block.backward.compute_s;
      // The last repetition has most before it.
      const Bytes before = chunk.kept + block.kept * (run.count - 1);
      chunk.forward_peak = std::max(chunk.forward_peak, before + block.forward_peak);
      chunk.backward_peak = std::max(chunk.backward_peak, before + block.backward_peak);
      chunk.kept += block.kept * run.count;
    }
    // Between chunks what comes in is kept here, and what goes out where it is read.
    if (chunks_.size() > 1) {
      chunk.kept += costs_.message;
      chunk.forward_peak += costs_.message;
      chunk.backward_peak += costs_.message;
    }
    const bool is_last =
        chunks_.size() == static_cast<std::size_t>(choices_.pp * choices_.virtual_stages);
    if (!is_last) {
      chunk.kept -= costs_.message;
      chunk.backward_peak -= costs_.message;
    }
    for (std::size_t i = back.size(); i-- > 0;) chunk.backward = chunk.backward.then(*back[i]);
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
  const std::int64_t other = item.forward ? item.chunk - 1 : item.chunk + 1;
  const double price =
      bounds_.send_price(choices_, other % choices_.pp, item.chunk % choices_.pp, costs_.message);
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
  if (item.last && choices_.dp > 1 && !any_state_) finish_gradients(number, chunk);
  stage.state = (item.forward ? chunk.forward : chunk.backward)(stage.state);
  stage.done_s += item.forward ? chunk.forward_s : chunk.backward_s;
  send(number, item);
}

void StagePlay::send(std::size_t number, const PipelineItem& item) {
  const std::int32_t to = item.forward ? item.chunk + 1 : item.chunk - 1;
  if (to < 0 || to >= static_cast<std::int32_t>(chunks_.size())) return;
  Stage& stage = stages_[number];
  stage.state[kHost] += setting_.engine.dispatch.value();
  double& lane = stage.sends[item.forward ? 0 : 1];
  const double price = bounds_.send_price(choices_, static_cast<std::int64_t>(number),
                                          to % choices_.pp, costs_.message);
  const double start = std::max({stage.state[kBoundary], lane, stage.state[kHost]});
  lane = start + price;
  message(item.forward, to, item.microbatch) = start;
}

// As lowering cuts them.
void StagePlay::cut_buckets(Chunk& chunk) const {
  struct Open {
    Bucket bucket;
    Bytes size;
  };
  const Bytes most = std::max(choices_.bucket, choices_.bucket_per_replica * choices_.dp);
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
        if (one.bucket.elements > 0 && one.size + size > most) finish(one);
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

// The last backward of a chunk, block by block: buckets are complete on the way.
void StagePlay::finish_gradients(std::size_t number, const Chunk& chunk) {
  Stage& stage = stages_[number];
  LaneTimes state = stage.state;
  double done = stage.done_s;
  auto next = chunk.buckets.begin();
  std::int64_t repetition = 0;
  for (std::size_t r = chunk.runs.size(); r-- > 0;) {
    const BlockBound& block = block_of(chunk.runs[r]);
    for (std::int64_t i = 0; i < chunk.runs[r].count; ++i, ++repetition) {
      for (; next != chunk.buckets.end() && next->repetition == repetition; ++next) {
        const BlockWeight& weight = block.weights[next->weight];
        Sync sync{.ready = at(weight.complete, state),
                  .done_s = done + weight.compute_before_s,
                  .elements = next->elements,
                  .of_layers = next->of_layers};
        price(number, sync);
        stage.syncs.push_back(sync);
      }
      for (const BlockWeight& weight : block.weights) {
        if (weight.frozen || !weight.tied) continue;
        Sync& sync = stage.tied[weight.number];
        // Gradients of several ops of a device are added when all else is done.
        sync.ready = sync.elements > 0 ? kNotSent : at(weight.complete, state);
        sync.done_s = done + weight.compute_before_s;
        sync.elements = weight.elements;
        sync.tied = true;
      }
      state = block.backward.advance(state);
      done += block.backward.compute_s;
    }
  }
}

void StagePlay::price(std::size_t number, Sync& sync) {
  const auto kind = choices_.zero > 0 ? TransferKind::ReduceScatter : TransferKind::AllReduce;
  sync.price = bounds_.replica_price(kind, choices_, static_cast<std::int64_t>(number),
                                     padded(sync.elements, choices_.zero > 0 ? choices_.dp : 1),
                                     gradient_element(element_plan_));
  sync.lost_s = sync.price * bounds_.replica_loss(choices_, static_cast<std::int64_t>(number));
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
  return bounds_.replica_price(TransferKind::AllGather, choices_, static_cast<std::int64_t>(number),
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
    for (const Stage& stage : stages_) summed = std::max(summed, stage.state[kCompute]);
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
    lanes = std::max(lanes, replica_lane_s(s));
    const bool gathers = choices_.zero == 1 || choices_.zero == 2;
    if (!engine.repeat) {
      tail = std::max({tail, update_s(stage), gathers ? gathers_s(s) : 0});
    }
  }
  return std::max(lanes, summed + norm + bounds_.norm_price(choices_) + tail);
}

Bytes StagePlay::state_bytes(const Stage& stage) const {
  const auto bytes = [&](BufferElement element) {
    return bytes_per_element(element, element_plan_.precision);
  };
  const auto share = [&](std::int64_t elements, int from) {
    return any_state_ || choices_.zero >= from ? elements / choices_.dp : elements;
  };
  const std::int64_t states = is_mixed(element_plan_.precision) ? 3 : 2;
  Bytes total = bytes(BufferElement::Real) * share(stage.elements + stage.frozen, 3) +
                bytes(gradient_element(element_plan_)) * share(stage.elements, 2);
  if (!choices_.offload_optimizer && !any_state_) {
    total += bytes(state_element(element_plan_)) * (states * share(stage.elements, 1));
  }
  return total;
}

// The most that kernels find there of all micro-batches.
Bytes StagePlay::activations(std::size_t number) const {
  Bytes alive, most;
  for (const PipelineItem& item : items_.stages[number]) {
    if (item.receives) continue;
    const Chunk& chunk = chunks_[static_cast<std::size_t>(item.chunk)];
    if (item.forward) {
      most = std::max(most, alive + chunk.forward_peak);
      alive += chunk.kept;
    } else {
      alive -= chunk.kept;
      most = std::max(most, alive + chunk.backward_peak);
    }
  }
  return most;
}

Bytes StagePlay::bytes() const {
  Bytes most;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Bytes bytes = state_bytes(stages_[s]);
    // Layers that are rerun together keep less than any by itself.
    const bool together =
        choices_.recompute.kind == Recompute::Uniform && choices_.recompute.layers > 1;
    if (!choices_.offload_activations && !any_state_ && !together) bytes += activations(s);
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace meshwright
