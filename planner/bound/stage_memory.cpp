// What stages keep, at the least.
#include <algorithm>
#include <optional>

#include "planner/bound/stage_play.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/lowering/step_end.h"

namespace meshwright {

Bytes optimizer_bytes(const Plan& element_plan, std::int64_t elements) {
  const auto states = static_cast<std::int64_t>(optimizer_state(element_plan).size());
  return bytes_per_element(state_element(element_plan), element_plan.precision) *
         (states * elements);
}

Bytes state_bytes(const StageHolds& stage, const PlanChoices& choices, const Plan& element_plan,
                  const Setting& setting) {
  const auto bytes = [&](BufferElement element) {
    return bytes_per_element(element, element_plan.precision);
  };
  const std::int64_t repeats = state_owners(choices);
  const std::int64_t repeats_routed = repeated_weights(choices) / replicas_sharing_experts(choices);
  const auto share = [&](std::int64_t elements, int from) {
    if (choices.zero < from) return elements;
    return (elements - stage.routed) / repeats + stage.routed / repeats_routed;
  };
  Bytes total = bytes(gradient_element(element_plan)) * share(stage.elements, 2);
  // Some software makes 16-bit weights of the optimizer's copy when it gathers them.
  const bool casts =
      setting.memory.casts_weights && is_mixed(element_plan.precision) && choices.zero == 3;
  if (!casts) total += bytes(BufferElement::Real) * share(stage.elements + stage.frozen, 3);
  if (!choices.offload_optimizer) {
    total += optimizer_bytes(element_plan, share(stage.elements, 1));
  }
  return total;
}

Bytes StagePlay::host_bytes() const {
  if (!choices_.offload_activations && !choices_.offload_optimizer) return {};
  std::optional<Bytes> least;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    // What a plan that finds room has no room for is there.
    Bytes bytes = work_.stage(s).away;
    if (const auto room = room_of(s)) bytes = std::max(bytes, work_.stage(s).leaving - *room);
    if (choices_.offload_optimizer) bytes += optimizer_bytes(element_plan_, owned(work_.stage(s)));
    least = std::min(least.value_or(bytes), bytes);
  }
  return *least;
}

// What an allocator keeps apart where the model ends. A bucket is no larger than it may be, or than
// its only weight.
Bytes StagePlay::apart_at_end(const PlanChoices& less) const {
  const bool sums = less.zero >= 2 && repeats_ > 1, gathers = less.zero == 3 && repeats_ > 1;
  if (!gathers) return work_.apart_at_end({}, sums);
  const Bytes element = bytes_per_element(BufferElement::Real, element_plan_.precision);
  const Bytes largest = element * (work_.stage(stages_.size() - 1).largest_weight + repeats_);
  return work_.apart_at_end(std::max(bucket_of(choices_) + element * repeats_, largest), sums);
}

// Weights and gradients that are made whole are not looked at.
void StagePlay::find_room() {
  constexpr Bytes kMany = 1_GiB;
  copy_rate_ = (copy_s(kMany * 2) - copy_s(kMany)) / static_cast<double>(kMany.value());
  for (std::size_t s = 0; s < stages_.size(); ++s) stages_[s].room = room_of(s);
}

std::optional<Bytes> StagePlay::room_of(std::size_t stage) const {
  if (open_ != LeftOpen::Nothing || !bounds_.room_) return std::nullopt;
  return *bounds_.room_ - bounds_.held_always(choices_) -
         state_bytes(work_.stage(stage), choices_, element_plan_, setting_);
}

const std::vector<std::vector<BoundBucket>>& StagePlay::buckets_of_kinds() const {
  return work_.buckets(bucket_of(choices_),
                       bytes_per_element(BufferElement::Real, element_plan_.precision));
}

// Of buckets, what is whole all through each repetition of a block in the backward: weights from
// when they are gathered, with the first use of those before them if memory is taken in order,
// until their last use; gradients from their first until those that are complete next are.
std::vector<Bytes> StagePlay::whole_in_backward(std::size_t kind) const {
  const std::vector<BoundBucket>& buckets = buckets_of_kinds()[kind];
  const std::int64_t repetitions = work_.kind(kind).repetitions;
  std::vector<Bytes> whole(static_cast<std::size_t>(repetitions));
  const auto add = [&](const BoundBucket& bucket, BufferElement element, std::int64_t from,
                       std::int64_t until) {
    if (!is_shared(bucket.routed)) return;
    const Bytes size = bytes_per_element(element, element_plan_.precision) * bucket.elements;
    for (std::int64_t r = from; r < until; ++r) whole[static_cast<std::size_t>(r)] += size;
  };
  std::vector<const BoundBucket*> completed, used;
  for (const BoundBucket& bucket : buckets) {
    completed.push_back(&bucket);
    if (is_shared(bucket.routed) && bucket.uses[1]) used.push_back(&bucket);
  }
  std::ranges::sort(completed, {}, [](const BoundBucket* bucket) { return bucket->completes; });
  std::ranges::sort(used, {}, [](const BoundBucket* bucket) { return bucket->uses[1]; });
  for (std::size_t b = 0; b < completed.size(); ++b) {
    const bool next = choices_.overlap && b + 1 < completed.size();
    add(*completed[b], gradient_element(element_plan_), completed[b]->first + 1,
        next ? completed[b + 1]->completes.repetition : repetitions);
  }
  const std::size_t ahead =
      setting_.memory.caching_allocator ? static_cast<std::size_t>(choices_.prefetch) : 0;
  for (std::size_t b = 0; b < used.size() && choices_.zero == 3; ++b) {
    const std::int64_t from = b < ahead ? 0 : used[b - ahead]->uses[1]->repetition + 1;
    add(*used[b], BufferElement::Real, from, used[b]->last_used);
  }
  return whole;
}

// Of a micro-batch, with what is whole of buckets. Layers that are rerun together use weights in
// another order.
Bytes StagePlay::backward_peak(std::size_t kind) const {
  const RecomputeChoice& recompute = choices_.recompute;
  if (recompute.kind == Recompute::Uniform && recompute.layers > 1) return {};
  const std::vector<Bytes> whole = whole_in_backward(kind);
  Bytes peak;
  for (const BackwardRun& run : work_.kind(kind).backward_runs) {
    for (std::int64_t r = 0; r < run.count; ++r) {
      peak =
          std::max(peak, run.peak - run.kept * r + whole[static_cast<std::size_t>(run.first + r)]);
    }
  }
  return peak;
}

// Of an optimizer on the host, the most that is there at once: what an update needs, and if memory
// is taken in order what the next one does. In which order tied weights are updated is not said.
Bytes StagePlay::brought_for_updates(std::size_t number, int zero) const {
  const auto brought = [&](std::int64_t elements, bool routed) {
    const std::int64_t shares = routed ? repeats_ / sharing_ : state_owners(choices_);
    return optimizer_bytes(element_plan_, zero == 0 ? elements : elements / shares);
  };
  const StageHolds& stage = work_.stage(number);
  Bytes most = std::max(brought(stage.largest_common, false), brought(stage.largest_routed, true));
  if (open_ != LeftOpen::Nothing || !setting_.memory.caching_allocator || !stage.tied.empty()) {
    return most;
  }
  Bytes before;
  for (std::size_t c = number; c < work_.chunk_count(); c += stages_.size()) {
    std::vector<BoundBucket> buckets = buckets_of_kinds()[work_.kind_of(c)];
    std::ranges::stable_sort(buckets, {}, [](const BoundBucket& bucket) { return bucket.uses[0]; });
    for (const BoundBucket& bucket : buckets) {
      const Bytes own = brought(bucket.elements, bucket.routed);
      most = std::max(most, before + own);
      before = own;
    }
  }
  return most;
}

// What is shared out is made whole for its kernels, which may take more than it saves. Of plans of
// which that is open no more is said than of those that share less out: what shares most out stands
// for all of them.
StagePlay::Fullest StagePlay::fullest() const {
  Fullest most;
  const bool routed = repeats_ > sharing_;
  const bool decided = open_ == LeftOpen::Nothing;
  std::vector<Bytes> peaks;
  for (std::size_t k = 0; decided && choices_.zero >= 2 && k < work_.kind_count(); ++k) {
    peaks.push_back(backward_peak(k));
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    std::optional<Bytes> least;
    PlanChoices less = choices_;
    for (less.zero = decided ? choices_.zero : 0; less.zero <= choices_.zero; ++less.zero) {
      const int elsewhere = repeats_ > 1 ? std::max(0, less.zero - 1) : 0;
      const StageHolds& stage = work_.stage(s);
      Bytes passing = stage.activations.of[elsewhere][routed];
      if (s + 1 == stages_.size() && setting_.memory.caching_allocator) {
        passing = std::max(passing, stage.before_end.of[elsewhere][routed] + apart_at_end(less));
      }
      for (std::size_t k = 0; k < peaks.size(); ++k) {
        const std::optional<Bytes>& beside = stage.beside_backward[k];
        if (beside) passing = std::max(passing, *beside + peaks[k]);
      }
      if (choices_.offload_optimizer) {
        passing = std::max(passing, brought_for_updates(s, less.zero));
      }
      const Bytes bytes = state_bytes(stage, less, element_plan_, setting_) + passing;
      least = std::min(least.value_or(bytes), bytes);
    }
    if (*least > most.bytes) most = {*least, s};
  }
  return most;
}

}  // namespace meshwright
