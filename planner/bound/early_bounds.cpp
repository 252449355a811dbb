// Bounds of plans whose blocks are not known yet.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "planner/bound/divisors.h"
#include "planner/bound/grown_work.h"
#include "planner/bound/plan_bound.h"
#include "planner/bound/task_ends.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

// The most that a kernel reads or writes of one buffer; several operands may be of the same.
Bytes operand_of(const Kernel& kernel, Precision precision) {
  Bytes most;
  for (const Operand& operand : kernel.operands) {
    const Bytes bytes = bytes_per_element(operand.element, precision) * element_count(operand);
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

Bounds::LoweredKey Bounds::any_place_key(const PlanChoices& choices) {
  LoweredKey key = key_of(choices);
  key.tp_inside = key.cp_inside = key.dp_inside = 0;
  key.ep = 1;
  key.sequence_parallel = false;
  key.recompute = {};
  return key;
}

Bounds::SampleSeconds Bounds::lesser(const SampleSeconds& a, const SampleSeconds& b) {
  // Nothing: it cannot be lowered, or there is no room for an operand of it.
  if (a.all == 0 && b.all == 0) return a.largest > b.largest ? a : b;
  if (a.all == 0 || b.all == 0) return a.all == 0 ? b : a;
  SampleSeconds least{.all = std::min(a.all, b.all),
                      .layer = std::min(a.layer, b.layer),
                      .largest = std::min(a.largest, b.largest),
                      .through = std::min(a.through, b.through),
                      .early = std::max(a.early, b.early)};
  const auto lesser_of = [](const std::vector<double>& c, const std::vector<double>& d) {
    std::vector<double> all;
    for (std::size_t i = 0; i < c.size(); ++i) all.push_back(std::min(c[i], d[i]));
    return all;
  };
  least.blocks = lesser_of(a.blocks, b.blocks);
  least.blocks_through = lesser_of(a.blocks_through, b.blocks_through);
  return least;
}

const Bounds::SampleSeconds& Bounds::sample(Samples& known, const PlanChoices& choices,
                                            std::int64_t microbatch) {
  const auto [entry, added] = known.try_emplace(microbatch);
  SampleSeconds& least = entry->second;
  if (!added) return least;
  PlanChoices split = choices;
  split.sequence_parallel = false;
  least = plain_sample(split, microbatch);
  // Kernels that tensor parallelism repeats have a part of the sequence each where that is cut.
  if (choices.tp == 1 || choices.tensor != TensorForm::OneD) return least;
  split.sequence_parallel = true;
  least = lesser(least, plain_sample(split, microbatch));
  // And those of experts are whole where each device has its own tokens for them.
  if (weights_.routed == 0 || choices.etp) return least;
  split.etp = 1;
  least = lesser(least, plain_sample(split, microbatch));
  return least;
}

const Bounds::SampleSeconds& Bounds::plain_sample(const PlanChoices& choices,
                                                  std::int64_t microbatch) {
  PlanChoices any_place = choices;
  any_place.place.clear();
  any_place.recompute = {};
  any_place.ep = 1;
  // Squares and cubes transfer so much that it counts before there is a place.
  if (choices.tensor != TensorForm::OneD) {
    any_place.microbatch = microbatch;
    return divided_sample(any_place);
  }
  LoweredKey key = any_place_key(any_place);
  key.sequence_parallel = choices.sequence_parallel;
  const auto [entry, added] = plain_samples_[key].try_emplace(microbatch);
  if (added) entry->second = newly_sampled(any_place, microbatch);
  return entry->second;
}

std::shared_ptr<const std::vector<BlockTask>> Bounds::tasks_of(const PlanChoices& choices) {
  const auto make = [&] {
    PlanChoices one = choices;
    one.microbatch = tensor_mesh(choices).batch_parts;
    const auto planned = plan_blocks(one, batch_, few_setting_);
    const auto* blocks = std::get_if<PlannedBlocks>(&planned);
    return blocks ? block_tasks(lower_blocks(*blocks), few_, shared_works_)
                  : std::vector<BlockTask>();
  };
  return tasks_.get(key_of(choices), make, std::size<std::vector<BlockTask>>);
}

Bounds::SampleSeconds Bounds::newly_sampled(const PlanChoices& choices, std::int64_t microbatch) {
  const std::int64_t parts = tensor_mesh(choices).batch_parts;
  Bytes largest;
  const auto tasks = tasks_of(choices);
  std::vector<std::optional<double>> seconds_of(tasks->size());
  std::map<const SampledWork*, double> known;  // layers of other kinds have some kernels alike
  Kernel whole;
  for (std::size_t t = 0; t < tasks->size(); ++t) {
    const SampledWork& work = *(*tasks)[t].work;
    const auto* one = std::get_if<Kernel>(&work.one);
    if (!one) continue;
    const auto [entry, added] = known.try_emplace(&work);
    if (!added) {
      seconds_of[t] = entry->second;
      continue;
    }
    grow(whole, *one, std::get<Kernel>(work.two), microbatch / parts);
    // However experts are shared out, the rows are no fewer: at best they are all one expert's.
    if (one->kind == KernelKind::ExpertMatmul) {
      for (Operand& operand : whole.operands) {
        if (operand.sizes.size() == 3) operand.sizes[0] = 1;
      }
    } else {
      largest = std::max(largest, operand_of(whole, batch_.precision));
      if (room_ && largest > *room_) return {.largest = largest};  // how long it takes is no matter
    }
    seconds_of[t] = entry->second = kernel_s(whole);
  }
  SampleSeconds seconds = sample_of(*tasks, seconds_of, microbatch);
  seconds.largest = largest;
  return seconds;
}

// Of tasks of which nothing is known a lane does nothing.
Bounds::SampleSeconds Bounds::sample_of(const std::vector<BlockTask>& tasks,
                                        const std::vector<std::optional<double>>& seconds,
                                        std::int64_t microbatch) const {
  TaskEnds computing(tasks), coming(tasks);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    computing.add(t, seconds[t], tasks[t].lane == TaskEnds::kComputeLane);
    coming.add(t, seconds[t], tasks[t].receives);
  }
  const std::size_t blocks = setting_.model.blocks.size();
  SampleSeconds sample{.blocks_through = coming.sent(blocks)};
  std::optional<double> through;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::int64_t count = setting_.model.blocks[b].count;
    sample.blocks.push_back(computing.end(true, b) + computing.end(false, b));
    const double own = sample.blocks[b] / static_cast<double>(microbatch);
    sample.all += static_cast<double>(count) * own;
    if (count == 1) continue;
    sample.layer = sample.layer == 0 ? own : std::min(sample.layer, own);
    through = std::min(through.value_or(sample.blocks_through[b]), sample.blocks_through[b]);
    sample.early = std::max(sample.early, computing.early(b));
  }
  sample.through = through.value_or(0);
  return sample;
}

Seconds Bounds::of_kernels(const PlanChoices& choices) {
  return of_kernels(samples_of(choices), choices);
}

Seconds Bounds::of_kernels(Samples& known, const PlanChoices& choices) {
  return with_sample(sample(known, choices, choices.microbatch), choices);
}

Seconds Bounds::with_sample(const SampleSeconds& seconds, const PlanChoices& choices) const {
  const auto samples = static_cast<double>(batch_.global_batch / choices.dp);
  const auto stages = static_cast<double>(choices.pp);
  // As in of_any.
  const double ahead = (stages - 1) / 2 * seconds.layer * static_cast<double>(choices.microbatch);
  const double average = seconds.all * samples / stages + ahead;
  const double kernels =
      std::max({average, busiest_s(seconds, choices), last_s(seconds, choices)}) * kRounding;
  // Where blocks cannot be lowered so, in no other way can there be less to multiply.
  return std::max(Seconds(kernels + setting_.step.step_s), of_mesh(choices));
}

// If no stage has more layers than they must have at the most, so many have that many that one of
// them stands behind all the others. Before it does anything the first micro-batch has gone through
// a layer at least of all stages between the first and it, and the last one goes back afterwards.
double Bounds::busiest_s(const SampleSeconds& seconds, const PlanChoices& choices) const {
  const std::int64_t most = (layer_count_ + choices.pp - 1) / choices.pp;
  const std::int64_t busiest = layer_count_ - (most - 1) * choices.pp;
  const double of_layer =
      seconds.layer * static_cast<double>(batch_.global_batch / choices.dp);  // all samples
  const double ahead = static_cast<double>(busiest - 2) * seconds.through - seconds.early;
  return std::min(static_cast<double>(most) * of_layer + std::max(0.0, ahead),
                  static_cast<double>(most + 1) * of_layer);
}

// Before the last chunk does anything the first micro-batch has gone through all layers before it,
// and the last one goes back afterwards. The model's first layer, which has another neighbour, is
// left out; the chunk has one layer or more, but not that one.
double Bounds::last_s(const SampleSeconds& seconds, const PlanChoices& choices) const {
  const double of_layer = seconds.layer * static_cast<double>(batch_.global_batch / choices.dp);
  const auto others = static_cast<double>(layer_count_ - 2);
  if (choices.pp == 1 || layer_count_ < 2) return 0;
  return std::min(of_layer + others * seconds.through, (others + 1) * of_layer) - seconds.early;
}

Seconds Bounds::of_any_microbatch(const PlanChoices& choices) {
  const std::int64_t samples = batch_.global_batch / choices.dp;
  std::optional<Seconds> least;
  PlanChoices one = choices;
  Samples& known = samples_of(choices);
  const std::int64_t parts = tensor_mesh(choices).batch_parts;
  for (const std::int64_t microbatch : divisors(samples, samples)) {
    if (microbatch % parts != 0) continue;
    one.microbatch = microbatch;
    // There is no room for larger ones either.
    if (room_ && sample(known, one, one.microbatch).largest > *room_) break;
    const Seconds step = of_kernels(known, one);
    least = std::min(least.value_or(step), step);
  }
  // None: no micro-batch can be shared out among the rows of tensor devices, or finds room.
  return least.value_or(of_mesh(choices));
}

Seconds Bounds::of_mesh(const PlanChoices& choices) const {
  const auto devices = static_cast<double>(device_count(choices));
  return Seconds(flops_ / (peak_ * devices) * kRounding + setting_.step.step_s);
}

Bytes Bounds::largest_of_split(const PlanChoices& choices) {
  return plain_sample(choices, choices.microbatch).largest + held_always(choices);
}

Bytes Bounds::largest_operand(const PlanChoices& choices) {
  return sample(samples_of(choices), choices, choices.microbatch).largest + held_always(choices);
}

}  // namespace meshwright
