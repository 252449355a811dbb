#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/search/search.h"
#include "planner/search/space.h"
#include "tests/user_costs.h"

namespace meshwright {

// What comes of choosing one after the other: the fastest division of the work as if memory were
// endless, then what is computed again so that it fits.
struct TwoStages {
  struct Found {
    PlanChoices choices;
    Report report;
  };
  std::optional<Found> plan;    // none: nothing of what was fastest fits
  std::size_t passed_over = 0;  // faster divisions that do not fit whatever is computed again
};

// The fastest that fits of plans that differ in what they compute again.
inline std::optional<TwoStages::Found> fastest_that_fits(const PlanChoices& division,
                                                         const SearchSpace& space,
                                                         const SearchQuestion& question,
                                                         const Setting& setting) {
  std::optional<TwoStages::Found> best;
  const auto fits = [&](const PlanChoices& one) {
    const auto made = plan_of(one, question.batch, setting);
    if (!std::holds_alternative<Plan>(made)) return false;
    Report report = predict(std::get<Plan>(made), setting).report;
    if (fit_within(report, question.max_memory) != Fit::Yes) return false;
    if (!best || report.step < best->report.step) best = {one, std::move(report)};
    return true;
  };
  PlanChoices least = division;
  least.recompute = {Recompute::Uniform};
  if (!fits(least)) return std::nullopt;
  // From what keeps least on; where more does not fit, as many layers as it takes keep less.
  for (const PlanChoices& one : space.recomputes(division) | std::views::reverse) {
    if (fits(one)) continue;
    for (auto more = space.dropping_more(one); more && !fits(*more);) {
      more = space.dropping_more(*more);
    }
    break;
  }
  return best;
}

// The fastest divisions where memory is endless, of all and of each size of micro-batch: the larger
// these, the sooner is a step, and the less likely is it that anything of them fits.
inline std::vector<RankedPlan> fastest_divisions(const SearchQuestion& question,
                                                 const Setting& setting, const Software& software) {
  Cluster endless = setting.cluster;
  for (NodeType& type : endless.node_types) {
    type.device.memory.value = type.device.memory.value * 1000;
  }
  const Setting roomy = make_setting(setting.model, endless, software, shipped_fits());
  SearchQuestion divided = question;
  divided.max_memory.reset();
  divided.pins = {{"recompute", "none"}, {"offload", "none"}};
  divided.top = 20;
  std::vector<RankedPlan> fastest = search(divided, roomy).plans;
  divided.pins.push_back({"microbatch", {}});
  for (std::int64_t samples = 1; question.batch.global_batch % samples == 0; samples *= 2) {
    divided.pins.back().value = std::to_string(samples);
    const SearchResult result = search(divided, roomy);
    fastest.insert(fastest.end(), result.plans.begin(), result.plans.end());
  }
  std::ranges::stable_sort(fastest, {}, [](const RankedPlan& plan) { return plan.report.step; });
  return fastest;
}

// With the same kept sets to choose from as `question`, which pins nothing.
inline TwoStages two_stages(const SearchQuestion& question, const Setting& setting,
                            const Software& software) {
  const SearchSpace space(question, setting);
  TwoStages result;
  for (const RankedPlan& division : fastest_divisions(question, setting, software)) {
    result.plan = fastest_that_fits(division.choices, space, question, setting);
    if (result.plan) break;
    ++result.passed_over;
  }
  return result;
}

}  // namespace meshwright
