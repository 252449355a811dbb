#include "simulator/report/knob_prices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace meshwright {
namespace {

struct Variant {
  std::string name;
  PlanChoices choices;
};

template <class Change>
Variant variant(std::string name, PlanChoices choices, Change change) {
  change(choices);
  return {std::move(name), std::move(choices)};
}

void add_recompute(const PlanChoices& choices, std::vector<Variant>& variants) {
  const std::pair<const char*, RecomputeChoice> kinds[] = {
      {"recompute=none", {.kind = Recompute::None}},
      {"recompute=selective", {.kind = Recompute::Selective}},
      {"recompute=products", {.kind = Recompute::Products}},
      {"recompute=full", {.kind = Recompute::Uniform, .layers = 1}}};
  for (const auto& [name, kind] : kinds) {
    variants.push_back(variant(name, choices, [&](PlanChoices& c) { c.recompute = kind; }));
  }
}

void add_offload(const PlanChoices& choices, std::vector<Variant>& variants) {
  const auto add = [&](const char* name, bool activations, bool optimizer) {
    variants.push_back(variant(name, choices, [&](PlanChoices& c) {
      c.offload_activations = activations;
      c.offload_optimizer = optimizer;
      c.offloaded_layers = 0;
    }));
  };
  add("offload=none", false, false);
  add("offload=activations", true, false);
  add("offload=optimizer", false, true);
}

void add_schedules(const PlanChoices& choices, std::vector<Variant>& variants) {
  const auto add = [&](const char* name, Schedule schedule, std::int64_t virtual_stages) {
    variants.push_back(variant(name, choices, [&](PlanChoices& c) {
      c.schedule = schedule;
      c.virtual_stages = virtual_stages;
      if (virtual_stages != choices.virtual_stages) c.layers.clear();
    }));
  };
  add("schedule=1f1b", Schedule::OneForwardOneBackward, 1);
  add("schedule=gpipe", Schedule::GPipe, 1);
  add("schedule=interleaved,virtual_stages=2", Schedule::Interleaved, 2);
}

std::vector<Variant> variants_of(const PlanChoices& choices) {
  std::vector<Variant> variants;
  const auto microbatch = [&](std::int64_t size) {
    variants.push_back(variant(fmt::format("microbatch={}", size), choices,
                               [&](PlanChoices& c) { c.microbatch = size; }));
  };
  if (choices.microbatch % 2 == 0) microbatch(choices.microbatch / 2);
  microbatch(choices.microbatch * 2);
  add_recompute(choices, variants);
  add_offload(choices, variants);
  for (int zero = 0; choices.dp > 1 && zero <= 3; ++zero) {
    variants.push_back(
        variant(fmt::format("zero={}", zero), choices, [&](PlanChoices& c) { c.zero = zero; }));
  }
  if (choices.tp > 1) {
    variants.push_back(variant(fmt::format("sequence_parallel={}", !choices.sequence_parallel),
                               choices,
                               [](PlanChoices& c) { c.sequence_parallel = !c.sequence_parallel; }));
  }
  if (choices.pp > 1) add_schedules(choices, variants);
  std::erase_if(variants, [&](const Variant& entry) { return entry.choices == choices; });
  return variants;
}

}  // namespace

KnobPrice price_of(const std::string& name, const PlanChoices& choices, const BatchChoice& batch,
                   const Setting& setting) {
  const auto planned = plan_of(choices, batch, setting);
  if (const auto* reasons = std::get_if<Reasons>(&planned)) {
    return {.name = name, .problem = fmt::format("{}", fmt::join(*reasons, "; "))};
  }
  return {.name = name, .report = predict(std::get<Plan>(planned), setting).report};
}

std::vector<KnobPrice> knob_prices(const PlanChoices& choices, const BatchChoice& batch,
                                   const Setting& setting, const std::stop_token& stop) {
  std::vector<KnobPrice> prices;
  for (const Variant& entry : variants_of(choices)) {
    if (stop.stop_requested()) break;
    prices.push_back(price_of(entry.name, entry.choices, batch, setting));
  }
  return prices;
}

}  // namespace meshwright
