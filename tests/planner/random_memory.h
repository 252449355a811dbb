#pragma once

#include <initializer_list>
#include <optional>

#include "planner/search/search.h"
#include "tests/planner/random_choices.h"

namespace meshwright {

// One of these shares of what a plain plan needs, so that some plans fit and others do not.
inline std::optional<Bytes> memory_about_a_plan(RandomChoices& random,
                                                const SearchQuestion& question,
                                                const Setting& setting,
                                                std::initializer_list<double> shares) {
  PlanChoices choices = question.defaults;
  choices.tp = random.one_of<std::int64_t>({1, 2});
  choices.microbatch = random.one_of<std::int64_t>({1, 2});
  const auto made = plan_of(choices, question.batch, setting);
  if (!std::holds_alternative<Plan>(made)) return std::nullopt;
  const Report report = predict(std::get<Plan>(made), setting).report;
  const double share = random.one_of<double>(shares);
  const auto needed = static_cast<double>(Report::needed(report.fullest()).value());
  return Bytes(static_cast<std::int64_t>(share * needed));
}

}  // namespace meshwright
