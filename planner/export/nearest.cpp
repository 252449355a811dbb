#include <fmt/format.h>

#include <algorithm>

#include "planner/export/target.h"

namespace meshwright {
namespace {

void drop_pipeline(PlanChoices& c) {
  c.dp *= c.pp;
  c.pp = c.virtual_stages = 1;
  c.schedule = Schedule::OneForwardOneBackward;
  c.layers.clear();
  c.place.clear();
}

void drop_chunks(PlanChoices& c) {
  c.schedule = Schedule::OneForwardOneBackward;
  c.virtual_stages = 1;
  c.layers.clear();
}

void set_context(PlanChoices& c, Context context) {
  c.context = context;
  c.ulysses.reset();
  c.inner_ring.reset();
}

void drop_context(PlanChoices& c) {
  c.dp *= c.cp;
  c.cp = 1;
  set_context(c, Context::Ring);
  c.place.clear();
}

void drop_experts(PlanChoices& c) {
  c.ep = 1;
  c.etp.reset();
  c.capacity.reset();
}

// Other values of a key that do not depend on the target, in the order in which they are tried.
struct OtherValue {
  std::string_view key;
  void (*change)(PlanChoices& choices);
};
constexpr OtherValue kOtherValues[] = {
    {"gradients", [](PlanChoices& c) { c.gradient_precision = std::nullopt; }},
    {"gradients", [](PlanChoices& c) { c.gradient_precision = Precision::BF16; }},
    {"gradients", [](PlanChoices& c) { c.gradient_precision = Precision::FP16; }},
    {"cp", drop_context},
    {"context", [](PlanChoices& c) { set_context(c, Context::Ring); }},
    {"context", [](PlanChoices& c) { set_context(c, Context::Ulysses); }},
    {"context", drop_context},
    {"ep", [](PlanChoices& c) { c.etp.reset(); }},
    {"ep", [](PlanChoices& c) { c.etp = 1; }},
    {"ep", drop_experts},
    {"pp", drop_pipeline},
    {"place", [](PlanChoices& c) { c.place.clear(); }},
    {"sequence_parallel", [](PlanChoices& c) { c.sequence_parallel = !c.sequence_parallel; }},
    {"schedule", drop_chunks},
    {"virtual_stages", drop_chunks},
    {"layers", [](PlanChoices& c) { c.layers.clear(); }},
    {"rerun_all", [](PlanChoices& c) { c.rerun_all = !c.rerun_all; }},
    {"offload", [](PlanChoices& c) { c.offload_activations = false; }},
    {"offload", [](PlanChoices& c) { c.offload_activations = c.offload_optimizer = false; }},
    {"zero", [](PlanChoices& c) { c.zero = std::min(c.zero + 1, 3); }},
    {"zero", [](PlanChoices& c) { c.zero = std::min(c.zero + 2, 3); }},
    {"zero", [](PlanChoices& c) { c.zero = 3; }},
    {"zero", [](PlanChoices& c) { c.zero = std::max(c.zero - 1, 0); }},
    {"zero", [](PlanChoices& c) { c.zero = std::max(c.zero - 2, 0); }},
    {"zero", [](PlanChoices& c) { c.zero = 0; }},
    {"shard", [](PlanChoices& c) { c.shard = std::nullopt; }},
    {"overlap", [](PlanChoices& c) { c.overlap = !c.overlap; }},
    {"reshard", [](PlanChoices& c) { c.reshard = !c.reshard; }},
    {"prefetch", [](PlanChoices& c) { c.prefetch = 1; }},
};

std::vector<PlanChoices> narrower_tensors(const PlanChoices& from) {
  std::vector<PlanChoices> others;
  for (std::int64_t tp = from.tp - 1; tp > 0; --tp) {
    if (from.tp * from.dp % tp != 0) continue;
    others.push_back(from);
    others.back().tp = tp;
    others.back().dp = from.tp * from.dp / tp;
    others.back().place.clear();
  }
  return others;
}

std::vector<PlanChoices> other_values(std::string_view key, const PlanChoices& from,
                                      const TargetWriter& writer, const ExportSetting& setting) {
  if (key == "tp") return narrower_tensors(from);
  std::vector<PlanChoices> others;
  const auto with = [&](auto change) {
    others.push_back(from);
    change(others.back());
  };
  for (const OtherValue& value : kOtherValues) {
    if (value.key == key) with(value.change);
  }
  for (const KernelSet one : writer.abilities.kernels) {
    if (key == "kernels") with([&](PlanChoices& c) { c.kernels = one; });
  }
  for (const Recompute kind : writer.abilities.recomputes) {
    if (key == "recompute" && kind != Recompute::Drop) {
      with([&](PlanChoices& c) { c.recompute = {.kind = kind}; });
    }
  }
  if (key == "layers" && writer.layers) {
    if (const auto layers = writer.layers(from, setting)) {
      with([&](PlanChoices& c) { c.layers = *layers; });
    }
  }
  if (key == "bucket" && writer.bucket) {
    with([&](PlanChoices& c) {
      c.bucket = writer.bucket(from, setting).value_or(c.bucket);
      c.bucket_per_replica = Bytes();
    });
  }
  return others;
}

// Keys that people leave to the target.
constexpr std::string_view kSilentKeys[] = {"kernels", "gradients", "rerun_all", "overlap",
                                            "reshard", "prefetch",  "zero"};

// Where another number of replicas no longer divides the batch, micro-batches become smaller.
bool fit_batch(PlanChoices& choices, const BatchChoice& batch) {
  if (batch.global_batch % choices.dp != 0) return false;
  const std::int64_t samples = batch.global_batch / choices.dp;
  while (samples % choices.microbatch != 0) --choices.microbatch;
  return true;
}

}  // namespace

PlanChoices carried_defaults(const ExportTarget& target, const PlanChoices& choices,
                             const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  PlanChoices carried = choices;
  for (const std::string_view key : kSilentKeys) {
    // Where it matters: with replicas that share all state out, and layers that are run again.
    PlanChoices asked = carried;
    asked.dp = 2;
    asked.zero = 3;
    asked.recompute = {Recompute::Uniform};
    if (!is_refused(target, key, asked, setting)) continue;
    for (const PlanChoices& other : other_values(key, asked, writer, setting)) {
      if (is_refused(target, key, other, setting)) continue;
      carried.kernels = other.kernels;
      carried.gradient_precision = other.gradient_precision;
      carried.rerun_all = other.rerun_all;
      carried.overlap = other.overlap;
      carried.reshard = other.reshard;
      carried.prefetch = other.prefetch;
      break;
    }
  }
  return carried;
}

PlanChoices carried_form(const ExportTarget& target, std::string_view text,
                         const PlanChoices& defaults, const ExportSetting& setting) {
  PlanChoices choices = parse_plan_choices(text, defaults);
  const std::string keys = fmt::format(",{}", text);
  const auto says = [&](std::string_view key) {
    return keys.find(fmt::format(",{}=", key)) != keys.npos;
  };
  const auto is_free = [&](std::string_view key, const PlanChoices& one) {
    return !is_refused(target, key, one, setting);
  };
  for (const std::string_view key : kSilentKeys) {
    if (says(key) || is_free(key, choices)) continue;
    const auto others = other_values(key, choices, writer_of(target), setting);
    const auto other =
        std::ranges::find_if(others, [&](const PlanChoices& one) { return is_free(key, one); });
    if (other != others.end()) choices = *other;
  }
  if (!says("layers")) {
    auto layers = own_layers(target, choices, setting);
    const auto chunks = static_cast<std::size_t>(choices.pp * choices.virtual_stages);
    if (layers && layers->size() == chunks) choices.layers = std::move(*layers);
  }
  if (!says("bucket")) {
    if (const auto bucket = own_bucket(target, choices, setting)) {
      choices.bucket = *bucket;
      choices.bucket_per_replica = Bytes();
    }
  }
  return choices;
}

std::vector<PlanChoices> nearest_carried(const ExportTarget& target, const PlanChoices& choices,
                                         const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  std::vector<PlanChoices> carried = {choices};
  for (const std::string_view key : legality_keys()) {
    std::vector<PlanChoices> next;
    for (const PlanChoices& one : carried) {
      if (!is_refused(target, key, one, setting)) {
        next.push_back(one);
        continue;
      }
      for (PlanChoices& other : other_values(key, one, writer, setting)) {
        if (!fit_batch(other, setting.batch) || is_refused(target, key, other, setting)) continue;
        next.push_back(std::move(other));
        if (key != "recompute") break;
      }
    }
    carried = std::move(next);
  }
  std::erase_if(carried,
                [&](const PlanChoices& one) { return !refusals_of(target, one, setting).empty(); });
  return carried;
}

}  // namespace meshwright
